import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The share consumer of kafka-clients 4.0.0, which nothing has to switch on, in what it could do in early access. Each
 * situation has a topic and a group of its own, and writes one line: its name, a colon, and what was seen.
 */
public class EarlyShareScenarios {
    private static final Duration PATIENCE = Duration.ofSeconds(15);
    private static final Duration MOMENT = Duration.ofMillis(100);
    private static final String RUN = Long.toString(System.nanoTime(), 36);

    private final String bootstrap;
    private final String name;

    private EarlyShareScenarios(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name + "-" + RUN;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Function<EarlyShareScenarios, Callable<String>>> scenarios = new LinkedHashMap<>();
        scenarios.put("implicit", scenario -> scenario::implicit);
        scenarios.put("explicit", scenario -> scenario::explicit);
        scenarios.put("delivery-limit", scenario -> scenario::deliveryLimit);
        scenarios.put("two-members", scenario -> scenario::twoMembers);
        scenarios.put("close-while-holding", scenario -> scenario::closeWhileHolding);
        ExecutorService threads = Executors.newFixedThreadPool(scenarios.size());
        Map<String, Future<String>> running = new LinkedHashMap<>();
        scenarios.forEach((name, make) ->
            running.put(name, threads.submit(make.apply(new EarlyShareScenarios(arguments[0], name)))));
        for (Map.Entry<String, Future<String>> one : running.entrySet()) {
            String seen;
            try {
                seen = one.getValue().get();
            } catch (Exception failure) {
                seen = "failed: " + failure.getCause();
            }
            System.out.println(one.getKey() + ": " + seen);
        }
        System.out.flush();
        System.exit(0);
    }

    private String implicit() throws Exception {
        prepare(1, 20);
        int got;
        try (ShareConsumer<String, String> consumer = consumer()) {
            got = take(consumer, 20).size();
            consumer.poll(MOMENT);
        }
        try (ShareConsumer<String, String> another = consumer()) {
            return got + " and then " + nothing(another);
        }
    }

    /** The first acknowledgement makes a consumer explicit; no setting does. */
    private String explicit() throws Exception {
        prepare(1, 6);
        List<AcknowledgeType> kinds = List.of(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT);
        Map<Long, Integer> deliveries = new TreeMap<>();
        try (ShareConsumer<String, String> consumer = consumer()) {
            for (ConsumerRecord<String, String> record : take(consumer, 6)) {
                consumer.acknowledge(record, kinds.get((int) record.offset() % 3));
            }
            String outcome = outcome(consumer.commitSync());
            for (ConsumerRecord<String, String> record : take(consumer, 2)) {
                deliveries.put(record.offset(), (int) record.deliveryCount().get());
                consumer.acknowledge(record);
            }
            return outcome + " " + outcome(consumer.commitSync()) + " again " + deliveries;
        }
    }

    private String deliveryLimit() throws Exception {
        prepare(1, 1);
        List<Integer> counts = new ArrayList<>();
        try (ShareConsumer<String, String> consumer = consumer()) {
            for (int i = 0; i < 5; i++) {
                ConsumerRecord<String, String> record = take(consumer, 1).get(0);
                counts.add((int) record.deliveryCount().get());
                consumer.acknowledge(record, AcknowledgeType.RELEASE);
                consumer.commitSync();
            }
            return counts + " and then " + nothing(consumer);
        }
    }

    /** Each member is assigned both partitions, and no record goes to both. */
    private String twoMembers() throws Exception {
        prepare(2, 20);
        Set<String> seen = new HashSet<>();
        int count = 0;
        try (ShareConsumer<String, String> one = consumer(); ShareConsumer<String, String> other = consumer()) {
            long deadline = System.nanoTime() + PATIENCE.toNanos();
            while (seen.size() < 40 && System.nanoTime() < deadline) {
                for (ShareConsumer<String, String> consumer : List.of(one, other)) {
                    for (ConsumerRecord<String, String> record : consumer.poll(MOMENT)) {
                        seen.add(record.partition() + "/" + record.offset());
                        count++;
                    }
                }
            }
            one.poll(MOMENT);
            other.poll(MOMENT);
        }
        return seen.size() + " records in " + count + " deliveries";
    }

    private String closeWhileHolding() throws Exception {
        prepare(1, 5);
        try (ShareConsumer<String, String> consumer = consumer()) {
            consumer.acknowledge(take(consumer, 5).get(0));
        }
        try (ShareConsumer<String, String> another = consumer()) {
            List<String> again = take(another, 4).stream()
                .map(record -> record.offset() + "=" + record.deliveryCount().get()).collect(Collectors.toList());
            another.poll(MOMENT);
            return "again " + again;
        }
    }

    // What the scenarios are made of.

    /** A topic, a group that begins at its start, and so many records in each partition, in one batch. */
    private void prepare(int partitions, int count) throws Exception {
        List<AlterConfigOp> changes = List.of(
            new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("share.heartbeat.interval.ms", "200"), AlterConfigOp.OpType.SET));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), changes)).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", 200);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < partitions * count; i++) {
                producer.send(new ProducerRecord<>(name, i % partitions, null, "value " + i));
            }
        }
    }

    private ShareConsumer<String, String> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", name);
        ShareConsumer<String, String> consumer =
            new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(name));
        return consumer;
    }

    /** Poll until there are at least so many records. */
    private static List<ConsumerRecord<String, String>> take(ShareConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(records.size() + " records, not " + count);
            }
            consumer.poll(MOMENT).forEach(records::add);
        }
        return records;
    }

    private static String nothing(ShareConsumer<String, String> consumer) {
        int count = 0;
        for (int i = 0; i < 8; i++) {
            count += consumer.poll(MOMENT).count();
        }
        return count == 0 ? "nothing" : count + " more";
    }

    private static String outcome(Map<TopicIdPartition, java.util.Optional<KafkaException>> result) {
        return result.values().stream()
            .map(error -> error.map(one -> one.getClass().getSimpleName()).orElse("good"))
            .collect(Collectors.joining(","));
    }
}
