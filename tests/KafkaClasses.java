import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Asks Kafka's own assignor classes, of several releases side by side, each release in a class loader of its own.
 *
 * <p>Arguments: the seconds after which an assignor is taken for endless, the jars that all releases share, then RELEASE=JAR:JAR for each
 * release. Standard input has one group after the other, standard output the answers; {@code kafka_classes.py} has the layout of both.
 */
public class KafkaClasses {
    private static final int ASSIGNMENT = 0;
    private static final int EXCEPTION = 1;
    private static final int ENDLESS = 2;
    private static final String GROUP = "org.apache.kafka.coordinator.group.";

    private final Map<String, ClassLoader> loaders = new HashMap<>();
    /** How long the assignor took that was called last. */
    private static volatile long nanoseconds;

    public static void main(String[] arguments) throws Exception {
        KafkaClasses classes = new KafkaClasses();
        ClassLoader shared = new URLClassLoader(urls(arguments[1]), ClassLoader.getPlatformClassLoader());
        for (String argument : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            int split = argument.indexOf('=');
            classes.loaders.put(argument.substring(0, split), new URLClassLoader(urls(argument.substring(split + 1)), shared));
        }
        DataInputStream groups = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream answers = new DataOutputStream(new BufferedOutputStream(System.out));
        System.setOut(System.err);
        while (true) {
            Group group;
            try {
                group = new Group(groups);
            } catch (EOFException end) {
                // An endless assignor is still running.
                System.exit(0);
                return;
            }
            classes.answer(group, Long.parseLong(arguments[0]), answers);
            answers.flush();
        }
    }

    private static URL[] urls(String jars) throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String jar : jars.split(":")) {
            urls.add(Path.of(jar).toUri().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    private void answer(Group group, long limitSeconds, DataOutputStream answers) throws Exception {
        ClassLoader loader = loaders.get(group.release);
        Callable<Map<String, List<Object[]>>> call = group.isServer ? prepareServer(loader, group) : prepareClient(loader, group);
        FutureTask<Map<String, List<Object[]>>> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        try {
            Map<String, List<Object[]>> assignment = task.get(limitSeconds, TimeUnit.SECONDS);
            long least = nanoseconds;
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(limitSeconds);
            for (int repeat = 1; repeat < group.repeats && System.nanoTime() < end; repeat++) {
                // Reading a subscription's user data uses it up.
                (group.isServer ? prepareServer(loader, group) : prepareClient(loader, group)).call();
                least = Math.min(least, nanoseconds);
            }
            answers.writeInt(ASSIGNMENT);
            answers.writeLong(least);
            answers.writeInt(assignment.size());
            for (Map.Entry<String, List<Object[]>> entry : assignment.entrySet()) {
                writeString(answers, entry.getKey());
                answers.writeInt(entry.getValue().size());
                for (Object[] partition : entry.getValue()) {
                    writeString(answers, (String) partition[0]);
                    answers.writeInt((Integer) partition[1]);
                }
            }
        } catch (TimeoutException endless) {
            answers.writeInt(ENDLESS);
        } catch (ExecutionException failed) {
            if (!(failed.getCause() instanceof InvocationTargetException)) {
                throw failed;
            }
            Throwable thrown = failed.getCause().getCause();
            answers.writeInt(EXCEPTION);
            writeString(answers, thrown.getClass().getSimpleName());
            writeString(answers, String.valueOf(thrown.getMessage()));
        }
    }

    /** Returns a call of a consumer's assignor; the call throws InvocationTargetException for what Kafka throws, and nothing else. */
    private static Callable<Map<String, List<Object[]>>> prepareClient(ClassLoader loader, Group group) throws Exception {
        Object cluster = cluster(loader, group);
        boolean isPublic = exists(loader, "org.apache.kafka.clients.consumer.ConsumerPartitionAssignor"); // since 2.4
        String api = "org.apache.kafka.clients.consumer." + (isPublic ? "ConsumerPartitionAssignor" : "internals.PartitionAssignor");
        Class<?> subscriptionClass = loader.loadClass(api + "$Subscription");
        Map<String, Object> subscriptions = new HashMap<>();
        for (MemberOfGroup member : group.members) {
            subscriptions.put(member.id, subscription(loader, subscriptionClass, isPublic, member));
        }
        Object argument = subscriptions;
        if (isPublic) {
            argument = loader.loadClass(api + "$GroupSubscription").getConstructor(Map.class).newInstance(subscriptions);
        }
        Object given = argument;
        Object assignor = loader.loadClass(group.assignor).getConstructor().newInstance();
        Method assign = loader.loadClass(api).getMethod("assign", cluster.getClass(), isPublic ? given.getClass() : Map.class);
        return () -> {
            long start = System.nanoTime();
            Object result = assign.invoke(assignor, cluster, given);
            nanoseconds = System.nanoTime() - start;
            Map<?, ?> byMember = (Map<?, ?>) (isPublic ? call(result, "groupAssignment") : result);
            Map<String, List<Object[]>> assignment = new LinkedHashMap<>();
            for (Map.Entry<?, ?> entry : byMember.entrySet()) {
                List<Object[]> partitions = new ArrayList<>();
                for (Object partition : (List<?>) call(entry.getValue(), "partitions")) {
                    partitions.add(new Object[] {call(partition, "topic"), call(partition, "partition")});
                }
                assignment.put((String) entry.getKey(), partitions);
            }
            return assignment;
        };
    }

    private static Object cluster(ClassLoader loader, Group group) throws Exception {
        Class<?> nodeClass = loader.loadClass("org.apache.kafka.common.Node");
        Class<?> infoClass = loader.loadClass("org.apache.kafka.common.PartitionInfo");
        Class<?> nodesClass = nodeClass.arrayType();
        Constructor<?> newNode = nodeClass.getConstructor(int.class, String.class, int.class, String.class);
        Constructor<?> newInfo = infoClass.getConstructor(String.class, int.class, nodeClass, nodesClass, nodesClass);
        Map<String, Object> nodes = new HashMap<>();
        List<Object> infos = new ArrayList<>();
        for (TopicOfGroup topic : group.topics) {
            for (int partition = 0; partition < topic.partitionCount; partition++) {
                List<String> racks = topic.racks == null ? Arrays.asList((String) null) : topic.racks.get(partition);
                Object replicas = java.lang.reflect.Array.newInstance(nodeClass, racks.size());
                for (int replica = 0; replica < racks.size(); replica++) {
                    String rack = racks.get(replica);
                    if (!nodes.containsKey(rack)) {
                        nodes.put(rack, newNode.newInstance(nodes.size(), "localhost", 9092, rack));
                    }
                    java.lang.reflect.Array.set(replicas, replica, nodes.get(rack));
                }
                Object leader = racks.isEmpty() ? null : java.lang.reflect.Array.get(replicas, 0);
                infos.add(newInfo.newInstance(topic.name, partition, leader, replicas, replicas));
            }
        }
        return loader.loadClass("org.apache.kafka.common.Cluster")
                .getConstructor(String.class, Collection.class, Collection.class, Set.class, Set.class)
                .newInstance("cluster", nodes.values(), infos, Set.of(), Set.of());
    }

    private static Object subscription(ClassLoader loader, Class<?> subscriptionClass, boolean isPublic, MemberOfGroup member)
            throws Exception {
        // The parameters are topics, user data, and then as many as the release knows of: claims, their generation, the rack.
        Constructor<?> longest = subscriptionClass.getConstructor(List.class, ByteBuffer.class);
        for (Constructor<?> constructor : subscriptionClass.getConstructors()) {
            if (isPublic && constructor.getParameterCount() > longest.getParameterCount()) {
                longest = constructor;
            }
        }
        Constructor<?> newPartition = loader.loadClass("org.apache.kafka.common.TopicPartition").getConstructor(String.class, int.class);
        List<Object> owned = new ArrayList<>();
        for (Object[] partition : member.owned) {
            owned.add(newPartition.newInstance(partition));
        }
        ByteBuffer userData = member.userData == null ? null : ByteBuffer.wrap(member.userData);
        Object[] values = {member.topics, userData, owned, member.generation, Optional.ofNullable(member.rack)};
        Object subscription = longest.newInstance(Arrays.copyOf(values, longest.getParameterCount()));
        if (isPublic) {
            subscriptionClass.getMethod("setGroupInstanceId", Optional.class).invoke(subscription, Optional.ofNullable(member.instanceId));
        }
        return subscription;
    }

    /** Returns a call of a broker's assignor, which is given what the broker makes of its records. */
    private static Callable<Map<String, List<Object[]>>> prepareServer(ClassLoader loader, Group group) throws Exception {
        Map<String, Object> ids = new HashMap<>();
        Map<Object, String> names = new HashMap<>();
        Map<Object, Integer> counts = new HashMap<>();
        Method parse = loader.loadClass("org.apache.kafka.common.Uuid").getMethod("fromString", String.class);
        for (TopicOfGroup topic : group.topics) {
            if (topic.id != null) {
                Object id = parse.invoke(null, topic.id);
                ids.put(topic.name, id);
                names.put(id, topic.name);
                if (topic.partitionCount >= 0) {
                    counts.put(id, topic.partitionCount);
                }
            }
        }
        Map<String, Object> members = new HashMap<>();
        Map<Object, Map<Integer, String>> inverted = new HashMap<>();
        Map<String, Integer> subscriberCounts = new HashMap<>();
        for (MemberOfGroup member : group.members) {
            new HashSet<>(member.topics).forEach(topic -> subscriberCounts.merge(topic, 1, Integer::sum));
            members.put(member.id, memberOfBroker(loader, member, ids, names, inverted));
        }
        boolean isHomogeneous = subscriberCounts.values().stream().allMatch(count -> count == members.size());
        Class<?> typeClass = loader.loadClass(GROUP + "api.assignor.SubscriptionType");
        Object type = typeClass.getField(isHomogeneous ? "HOMOGENEOUS" : "HETEROGENEOUS").get(null);
        Object spec = loader.loadClass(GROUP + "modern.GroupSpecImpl")
                .getConstructor(Map.class, typeClass, Map.class)
                .newInstance(members, type, inverted);
        Class<?> describerClass = loader.loadClass(GROUP + "api.assignor.SubscribedTopicDescriber");
        Object describer = Proxy.newProxyInstance(loader, new Class<?>[] {describerClass}, (proxy, method, values) ->
                method.getName().equals("numPartitions") ? counts.getOrDefault(values[0], -1) : Set.of());
        Object assignor = loader.loadClass(group.assignor).getConstructor().newInstance();
        Method assign = loader.loadClass(GROUP + "api.assignor.PartitionAssignor")
                .getMethod("assign", loader.loadClass(GROUP + "api.assignor.GroupSpec"), describerClass);
        return () -> {
            long start = System.nanoTime();
            Object result = assign.invoke(assignor, spec, describer);
            nanoseconds = System.nanoTime() - start;
            Map<?, ?> byMember = (Map<?, ?>) call(result, "members");
            Map<String, List<Object[]>> assignment = new LinkedHashMap<>();
            for (Map.Entry<?, ?> entry : byMember.entrySet()) {
                List<Object[]> partitions = new ArrayList<>();
                for (Map.Entry<?, ?> ofTopic : ((Map<?, ?>) call(entry.getValue(), "partitions")).entrySet()) {
                    for (Object partition : (Set<?>) ofTopic.getValue()) {
                        partitions.add(new Object[] {names.get(ofTopic.getKey()), partition});
                    }
                }
                assignment.put((String) entry.getKey(), partitions);
            }
            return assignment;
        };
    }

    private static Object memberOfBroker(
            ClassLoader loader, MemberOfGroup member, Map<String, Object> ids, Map<Object, String> names,
            Map<Object, Map<Integer, String>> inverted) throws Exception {
        Map<Object, List<Integer>> owned = new LinkedHashMap<>();
        for (Object[] partition : member.owned) {
            Object id = ids.getOrDefault(partition[0], deletedId(loader, (String) partition[0]));
            owned.computeIfAbsent(id, key -> new ArrayList<>()).add((Integer) partition[1]);
            inverted.computeIfAbsent(id, key -> new HashMap<>()).put((Integer) partition[1], member.id);
        }
        Class<?> valueClass = loader.loadClass(GROUP + "generated.ConsumerGroupTargetAssignmentMemberValue");
        Class<?> ofTopicClass = loader.loadClass(valueClass.getName() + "$TopicPartition");
        List<Object> record = new ArrayList<>();
        for (Map.Entry<Object, List<Integer>> entry : owned.entrySet()) {
            Object ofTopic = ofTopicClass.getConstructor().newInstance();
            ofTopicClass.getMethod("setTopicId", entry.getKey().getClass()).invoke(ofTopic, entry.getKey());
            ofTopicClass.getMethod("setPartitions", List.class).invoke(ofTopic, entry.getValue());
            record.add(ofTopic);
        }
        Object value = valueClass.getConstructor().newInstance();
        valueClass.getMethod("setTopicPartitions", List.class).invoke(value, record);
        Class<?> targetClass = loader.loadClass(GROUP + "modern.Assignment");
        Object target = targetClass.getMethod("fromRecord", valueClass).invoke(null, value);

        Object builder = loader.loadClass(GROUP + "modern.consumer.ConsumerGroupMember$Builder")
                .getConstructor(String.class)
                .newInstance(member.id);
        builder.getClass().getMethod("setSubscribedTopicNames", List.class).invoke(builder, member.topics);
        Object subscribed = call(call(builder, "build"), "subscribedTopicNames");
        return loader.loadClass(GROUP + "modern.MemberSubscriptionAndAssignmentImpl")
                .getConstructor(Optional.class, Optional.class, Set.class, targetClass)
                .newInstance(
                        Optional.ofNullable(member.rack), Optional.ofNullable(member.instanceId),
                        topicIds(loader, subscribed, ids, names), target);
    }

    /** Returns an id for a topic that is in a target only; no other topic has one like it. */
    private static Object deletedId(ClassLoader loader, String name) throws Exception {
        return loader.loadClass("org.apache.kafka.common.Uuid")
                .getConstructor(long.class, long.class)
                .newInstance(Long.MIN_VALUE, (long) name.hashCode());
    }

    /** Returns the broker's view of names as ids, in which names without an id are there but do not come up. */
    private static Object topicIds(ClassLoader loader, Object subscribed, Map<String, Object> ids, Map<Object, String> names)
            throws Exception {
        Class<?> idsClass = loader.loadClass(GROUP + "modern.TopicIds");
        if (exists(loader, GROUP + "modern.TopicIds$TopicResolver")) { // since 4.0
            Class<?> resolverClass = loader.loadClass(GROUP + "modern.TopicIds$TopicResolver");
            Object resolver = Proxy.newProxyInstance(loader, new Class<?>[] {resolverClass}, (proxy, method, values) ->
                    method.getName().equals("id") ? ids.get(values[0]) : names.get(values[0]));
            return idsClass.getConstructor(Set.class, resolverClass).newInstance(subscribed, resolver);
        }
        Class<?> mapClass = loader.loadClass("org.apache.kafka.server.immutable.ImmutableMap");
        Class<?> topicClass = loader.loadClass("org.apache.kafka.image.TopicImage");
        Class<?> imageClass = loader.loadClass("org.apache.kafka.image.TopicsImage");
        Object byId = mapClass.getMethod("empty").invoke(null);
        Object byName = byId;
        for (Map.Entry<String, Object> entry : ids.entrySet()) {
            Object topic = topicClass.getConstructors()[0].newInstance(entry.getKey(), entry.getValue(), Map.of());
            byId = mapClass.getMethod("updated", Object.class, Object.class).invoke(byId, entry.getValue(), topic);
            byName = mapClass.getMethod("updated", Object.class, Object.class).invoke(byName, entry.getKey(), topic);
        }
        Object image = imageClass.getConstructor(mapClass, mapClass).newInstance(byId, byName);
        return idsClass.getConstructor(Set.class, imageClass).newInstance(subscribed, image);
    }

    private static boolean exists(ClassLoader loader, String name) {
        try {
            loader.loadClass(name);
            return true;
        } catch (ClassNotFoundException missing) {
            return false;
        }
    }

    private static Object call(Object object, String method) throws ReflectiveOperationException {
        Method found = object.getClass().getMethod(method);
        found.setAccessible(true);
        return found.invoke(object);
    }

    private static void writeString(DataOutputStream out, String text) throws IOException {
        byte[] units = text.getBytes(StandardCharsets.UTF_16BE);
        out.writeInt(units.length);
        out.write(units);
    }

    private static final class Group {
        final String release;
        final String assignor;
        final boolean isServer;
        final int repeats;
        final List<TopicOfGroup> topics = new ArrayList<>();
        final List<MemberOfGroup> members = new ArrayList<>();

        Group(DataInputStream in) throws IOException {
            release = readString(in);
            assignor = readString(in);
            isServer = assignor.startsWith(GROUP);
            repeats = in.readInt();
            int topicCount = in.readInt();
            for (int i = 0; i < topicCount; i++) {
                topics.add(new TopicOfGroup(in));
            }
            int memberCount = in.readInt();
            for (int i = 0; i < memberCount; i++) {
                members.add(new MemberOfGroup(in));
            }
        }
    }

    private static final class TopicOfGroup {
        final String name;
        final String id;
        final int partitionCount;
        final List<List<String>> racks;

        TopicOfGroup(DataInputStream in) throws IOException {
            name = readString(in);
            id = readString(in);
            partitionCount = in.readInt();
            boolean hasRacks = in.readBoolean();
            racks = hasRacks ? new ArrayList<>() : null;
            for (int partition = 0; hasRacks && partition < partitionCount; partition++) {
                racks.add(readStrings(in));
            }
        }
    }

    private static final class MemberOfGroup {
        final String id;
        final List<String> topics;
        final String instanceId;
        final String rack;
        final int generation;
        final byte[] userData;
        final List<Object[]> owned = new ArrayList<>();

        MemberOfGroup(DataInputStream in) throws IOException {
            id = readString(in);
            topics = readStrings(in);
            instanceId = readString(in);
            rack = readString(in);
            generation = in.readInt();
            userData = readBytes(in);
            int ownedCount = in.readInt();
            for (int i = 0; i < ownedCount; i++) {
                owned.add(new Object[] {readString(in), in.readInt()});
            }
        }
    }

    private static List<String> readStrings(DataInputStream in) throws IOException {
        int count = in.readInt();
        List<String> strings = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            strings.add(readString(in));
        }
        return strings;
    }

    private static String readString(DataInputStream in) throws IOException {
        byte[] units = readBytes(in);
        return units == null ? null : new String(units, StandardCharsets.UTF_16BE);
    }

    private static byte[] readBytes(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        in.readFully(bytes);
        return bytes;
    }
}
