import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's idempotent producer and share consumer while the broker has faults. The program writes one line for
 * each: the offsets of three records, and the results of the acknowledgements of the first record.
 */
public class FaultScenarios {
    private static final Duration PATIENCE = Duration.ofSeconds(40);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        System.out.println("produced: " + produce(bootstrap));
        System.out.println("acknowledged: " + acknowledge(bootstrap));
    }

    private static List<Long> produce(String bootstrap) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "enable.idempotence", true,
            "retry.backoff.ms", 10, "reconnect.backoff.ms", 10);
        List<Long> offsets = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String value : List.of("one", "two", "three")) {
                ProducerRecord<String, String> record = new ProducerRecord<>("orders", 0, null, value);
                offsets.add(producer.send(record).get(PATIENCE.toSeconds(), TimeUnit.SECONDS).offset());
            }
        }
        return offsets;
    }

    private static List<String> acknowledge(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "g");
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            AlterConfigOp set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        }
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", "g",
            "share.acknowledgement.mode", "explicit", "max.poll.records", 1);
        List<String> results = new ArrayList<>();
        long end = System.nanoTime() + PATIENCE.toNanos();
        try (var consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            while (results.size() < 2 && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
                Map<TopicIdPartition, Optional<KafkaException>> outcome = consumer.commitSync();
                outcome.values().forEach(error -> results.add(
                    error.map(exception -> exception.getClass().getSimpleName()).orElse("written")));
            }
        }
        return results;
    }
}
