import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's share consumer with a dead-letter queue (KIP-1191), and a plain consumer that reads the queue. Writes
 * one line for each situation: its name, a colon, and what was in the queue.
 */
public class DeadLetterScenarios {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Duration MOMENT = Duration.ofMillis(200);
    private static final String QUEUE_NAME = "errors.deadletterqueue.topic.name";

    private final String bootstrap;
    private final String name;
    private final String queue;

    private DeadLetterScenarios(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
        this.queue = "dlq." + name;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Function<DeadLetterScenarios, Callable<String>>> scenarios = new LinkedHashMap<>();
        scenarios.put("rejected", scenario -> scenario::rejected);
        scenarios.put("exhausted", scenario -> scenario::exhausted);
        scenarios.put("expired", scenario -> scenario::expired);
        scenarios.put("copied", scenario -> scenario::copied);
        scenarios.put("without-queue", scenario -> scenario::withoutQueue);
        ExecutorService threads = Executors.newFixedThreadPool(scenarios.size());
        Map<String, Future<String>> running = new LinkedHashMap<>();
        scenarios.forEach((name, make) ->
            running.put(name, threads.submit(make.apply(new DeadLetterScenarios(arguments[0], name)))));
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

    private String rejected() throws Exception {
        prepare(Map.of(QUEUE_NAME, queue), 5);
        try (ShareConsumer<String, String> consumer = consumer()) {
            for (ConsumerRecord<String, String> record : take(consumer, 5)) {
                boolean isGood = record.offset() % 2 == 0;
                consumer.acknowledge(record, isGood ? AcknowledgeType.ACCEPT : AcknowledgeType.REJECT);
            }
            consumer.commitSync();
        }
        return queued(2);
    }

    private String exhausted() throws Exception {
        prepare(Map.of(QUEUE_NAME, queue, "share.delivery.count.limit", "2"), 1);
        try (ShareConsumer<String, String> consumer = consumer()) {
            for (int delivery = 1; delivery <= 2; delivery++) {
                take(consumer, 1).forEach(record -> consumer.acknowledge(record, AcknowledgeType.RELEASE));
                consumer.commitSync();
            }
        }
        return queued(1);
    }

    private String expired() throws Exception {
        Map<String, String> configs = Map.of(QUEUE_NAME, queue, "share.delivery.count.limit", "2",
            "share.record.lock.duration.ms", "1000");
        prepare(configs, 1);
        for (int delivery = 1; delivery <= 2; delivery++) {
            ShareConsumer<String, String> stalled = consumer();
            take(stalled, 1);
            Thread.sleep(1_500);
            stalled.close(Duration.ZERO);
        }
        return queued(1);
    }

    private String copied() throws Exception {
        prepare(Map.of(QUEUE_NAME, queue, "errors.deadletterqueue.copy.record.enable", "true"), 3);
        try (ShareConsumer<String, String> consumer = consumer()) {
            take(consumer, 3).forEach(record -> consumer.acknowledge(record, AcknowledgeType.REJECT));
            consumer.commitSync();
        }
        return queued(3);
    }

    private String withoutQueue() throws Exception {
        prepare(Map.of(), 1);
        try (ShareConsumer<String, String> consumer = consumer()) {
            take(consumer, 1).forEach(record -> consumer.acknowledge(record, AcknowledgeType.REJECT));
            consumer.commitSync();
            Thread.sleep(500);
        }
        return queued(0);
    }

    /** Creates the topic with some records, its queue, and the configuration of the group. */
    private void prepare(Map<String, String> configs, int count) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic topic = new NewTopic(queue, 1, (short) 1);
            topic.configs(Map.of("errors.deadletterqueue.group.enable", "true"));
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1), topic)).all().get();
            List<AlterConfigOp> changes = new ArrayList<>();
            changes.add(new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET));
            configs.forEach((key, value) ->
                changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, name);
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", 0);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>(name, "k" + number, "v" + number));
            }
        }
    }

    private ShareConsumer<String, String> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", name,
            "share.acknowledgement.mode", "explicit");
        ShareConsumer<String, String> consumer =
            new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(name));
        return consumer;
    }

    private static List<ConsumerRecord<String, String>> take(ShareConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (records.size() < count && System.nanoTime() < end) {
            consumer.poll(MOMENT).forEach(records::add);
        }
        return records;
    }

    /** What the queue holds, when it holds so many records. */
    private String queued(int count) {
        List<String> seen = new ArrayList<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            Set<TopicPartition> partitions = Collections.singleton(new TopicPartition(queue, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long end = System.nanoTime() + PATIENCE.toNanos();
            while (seen.size() < count && System.nanoTime() < end) {
                consumer.poll(MOMENT).forEach(record -> seen.add(describe(record)));
            }
        }
        return seen.isEmpty() ? "nothing" : String.join("; ", seen);
    }

    private static String describe(ConsumerRecord<String, String> record) {
        String headers = StreamSupport.stream(record.headers().spliterator(), false)
            .map(DeadLetterScenarios::describe).collect(Collectors.joining(" "));
        return record.key() + "=" + record.value() + " " + headers;
    }

    private static String describe(Header header) {
        String value = new String(header.value(), StandardCharsets.UTF_8);
        return header.key().replace("__dlq.errors.", "") + "=" + value.replace(' ', '-');
    }
}
