import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's producer, consumers and admin client. Writes one line for each scenario: its name, a colon, and what
 * was seen.
 */
public class ClientScenarios {
    private static final int RECORDS = 50;
    private static final Duration POLL = Duration.ofMillis(200);
    private static final long TIMEOUT_MS = 30_000;

    private final String bootstrap;

    private ClientScenarios(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        ClientScenarios scenarios = new ClientScenarios(arguments[0]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createTopics(List.of(new NewTopic("in", 2, (short) 1), new NewTopic("out", 1, (short) 1))).all().get();
            System.out.println("features: " + scenarios.features(admin));
            scenarios.produce();
            System.out.println("classic: " + scenarios.consume("classic"));
            System.out.println("consumer: " + scenarios.consume("consumer"));
            System.out.println("transaction: " + scenarios.copy(admin));
            System.out.println("groups: " + scenarios.groups(admin));
            System.out.println("delete: " + scenarios.delete(admin));
        }
    }

    private Map<String, Object> settings(Map<String, Object> more) {
        Map<String, Object> settings = new TreeMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return settings;
    }

    private KafkaConsumer<String, String> consumer(String protocol, String group) {
        return new KafkaConsumer<>(settings(Map.of("group.id", group, "group.protocol", protocol,
                "auto.offset.reset", "earliest", "enable.auto.commit", false)),
                new StringDeserializer(), new StringDeserializer());
    }

    private String features(Admin admin) throws Exception {
        Map<String, FinalizedVersionRange> levels = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        return "metadata " + levels.get("metadata.version").maxVersionLevel()
                + ", share " + levels.get("share.version").maxVersionLevel();
    }

    private void produce() throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(Map.of("compression.type", "zstd")),
                new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < RECORDS; number++) {
                producer.send(new ProducerRecord<>("in", "k" + number, "v" + number));
            }
        }
    }

    private List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (records.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(POLL).forEach(records::add);
        }
        return records;
    }

    private String consume(String protocol) {
        try (KafkaConsumer<String, String> consumer = consumer(protocol, "group-" + protocol)) {
            consumer.subscribe(List.of("in"));
            TreeSet<String> keys = new TreeSet<>();
            List<ConsumerRecord<String, String>> records = poll(consumer, RECORDS);
            records.forEach(record -> keys.add(record.key()));
            consumer.commitSync();
            return records.size() + " records, " + keys.size() + " keys";
        }
    }

    /** Copies the records in a transaction, together with the offsets of the consumer. */
    private String copy(Admin admin) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings(Map.of("transactional.id", "copy")),
                new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer = consumer("consumer", "copiers")) {
            producer.initTransactions();
            consumer.subscribe(List.of("in"));
            List<ConsumerRecord<String, String>> records = poll(consumer, RECORDS);
            producer.beginTransaction();
            Map<TopicPartition, OffsetAndMetadata> offsets = new TreeMap<>(
                    (one, other) -> one.toString().compareTo(other.toString()));
            for (ConsumerRecord<String, String> record : records) {
                producer.send(new ProducerRecord<>("out", record.key(), record.value()));
                offsets.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
            producer.commitTransaction();
        }
        long committed = admin.listConsumerGroupOffsets("copiers").partitionsToOffsetAndMetadata().get().values()
                .stream().mapToLong(OffsetAndMetadata::offset).sum();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(
                settings(Map.of("isolation.level", "read_committed", "auto.offset.reset", "earliest",
                        "group.id", "readers")), new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("out"));
            return poll(consumer, RECORDS).size() + " copied, " + committed + " committed";
        }
    }

    private String groups(Admin admin) throws Exception {
        TreeMap<String, String> types = new TreeMap<>();
        for (GroupListing listing : admin.listGroups().all().get()) {
            types.put(listing.groupId(), listing.type().map(Object::toString).orElse("none"));
        }
        return types.toString();
    }

    private String delete(Admin admin) throws Exception {
        admin.deleteConsumerGroups(List.of("group-classic")).all().get();
        try {
            admin.deleteConsumerGroups(List.of("missing")).all().get();
            return "a missing group was deleted";
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
    }
}
