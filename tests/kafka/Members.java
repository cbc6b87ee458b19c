import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumers of Kafka's own client, a thread each, ordered about by lines on standard input: "join NAME TOPIC,... KEY=VALUE ...", "share
 * NAME TOPIC,... KEY=VALUE ...", "leave NAME", "unsubscribe NAME", "stall NAME" and "enforce NAME REASON", and an admin by "remove ADDRESS
 * GROUP INSTANCE-ID REASON". Told on standard output is what callbacks give and take: "NAME has GENERATION MEMBER-ID TOPIC:PARTITION,..."
 * with all that the consumer has by then, and "NAME gives ..." with what it loses.
 */
public class Members {
    private static final Map<String, Thread> THREADS = new ConcurrentHashMap<>();
    private static final Set<String> LEAVING = ConcurrentHashMap.newKeySet();
    private static final Map<String, Queue<Consumer<KafkaConsumer<?, ?>>>> ORDERS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("leave")) {
                end(words[1]);
            } else if (words[0].equals("unsubscribe")) {
                ORDERS.get(words[1]).add(KafkaConsumer::unsubscribe);
            } else if (words[0].equals("stall")) {
                ORDERS.get(words[1]).add(consumer -> stall(words[1]));
            } else if (words[0].equals("enforce")) {
                String reason = line.split(" ", 3)[2];
                ORDERS.get(words[1]).add(consumer -> consumer.enforceRebalance(reason));
            } else if (words[0].equals("remove")) {
                remove(words[1], words[2], words[3], line.split(" ", 5)[4]);
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
        ORDERS.put(name, new ConcurrentLinkedQueue<>());
        Thread thread = new Thread(life);
        THREADS.put(name, thread);
        thread.start();
    }

    private static void end(String name) throws InterruptedException {
        LEAVING.add(name);
        THREADS.remove(name).join();
    }

    private static void stall(String name) {
        while (!LEAVING.contains(name)) {
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private static void remove(String address, String group, String instance, String reason) throws Exception {
        RemoveMembersFromConsumerGroupOptions options =
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove(instance)));
        options.reason(reason);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            admin.removeMembersFromConsumerGroup(group, options).all().get();
        }
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
                Consumer<KafkaConsumer<?, ?>> order = ORDERS.get(name).poll();
                if (order != null) {
                    order.accept(consumer);
                } else if (consumer.subscription().isEmpty()) {
                    pause();
                } else {
                    consumer.poll(Duration.ofMillis(50));
                }
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
