import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of Kafka's own client, a thread each, ordered about by lines on standard input: "join NAME TOPIC,... KEY=VALUE ...", "share
 * NAME TOPIC,... KEY=VALUE ..." and "leave NAME". Told on standard output is what callbacks give and take: "NAME has GENERATION MEMBER-ID
 * TOPIC:PARTITION,..." with all that the consumer has by then, and "NAME gives ..." with what it loses.
 */
public class Members {
    private static final Map<String, Thread> THREADS = new ConcurrentHashMap<>();
    private static final Set<String> LEAVING = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("leave")) {
                end(words[1]);
            } else {
                Properties properties = new Properties();
                for (int i = 3; i < words.length; i++) {
                    properties.put(words[i].substring(0, words[i].indexOf('=')), words[i].substring(words[i].indexOf('=') + 1));
                }
                boolean shares = words[0].equals("share");
                start(words[1], shares ? () -> share(words[1], words[2], properties) : () -> consume(words[1], words[2], properties));
            }
        }
        for (String name : List.copyOf(THREADS.keySet())) {
            end(name);
        }
    }

    private static void start(String name, Runnable life) {
        Thread thread = new Thread(life);
        THREADS.put(name, thread);
        thread.start();
    }

    private static void end(String name) throws InterruptedException {
        LEAVING.add(name);
        THREADS.remove(name).join();
    }

    private static void consume(String name, String topics, Properties properties) {
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topics.split(",")), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> given) {
                    tell(name, "has", consumer, consumer.assignment());
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> taken) {
                    tell(name, "gives", consumer, taken);
                }
            });
            while (!LEAVING.contains(name)) {
                consumer.poll(Duration.ofMillis(50));
            }
        }
    }

    private static void share(String name, String topics, Properties properties) {
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topics.split(",")));
            while (!LEAVING.contains(name)) {
                consumer.poll(Duration.ofMillis(50));
            }
        }
    }

    private static synchronized void tell(String name, String what, KafkaConsumer<?, ?> consumer, Collection<TopicPartition> places) {
        String spelled = places.stream().map(place -> place.topic() + ":" + place.partition()).collect(Collectors.joining(","));
        ConsumerGroupMetadata group = consumer.groupMetadata();
        System.out.println(name + " " + what + " " + group.generationId() + " " + group.memberId() + " " + spelled);
        System.out.flush();
    }
}
