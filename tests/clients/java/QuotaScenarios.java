import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Apache Kafka's admin client and producer over their quotas. The program writes one line for each: how the creation of
 * a topic fails without retries, that it succeeds with them, and the offsets of three records with whether the producer
 * was throttled.
 */
public class QuotaScenarios {
    private static final long PATIENCE_S = 40;

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "client.id", "shop");
        try (Admin admin = Admin.create(settings)) {
            create(admin, "many", 30, true);
            try {
                create(admin, "late", 1, false);
                System.out.println("refused: no");
            } catch (ExecutionException exception) {
                System.out.println("refused: " + exception.getCause().getClass().getSimpleName());
            }
            create(admin, "other", 30, true);
            create(admin, "late", 1, true);
            System.out.println("retried: created");
        }
        System.out.println("produced: " + produce(settings));
    }

    private static void create(Admin admin, String name, int partitions, boolean retries) throws Exception {
        CreateTopicsOptions options = new CreateTopicsOptions().retryOnQuotaViolation(retries);
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1)), options).all()
            .get(PATIENCE_S, TimeUnit.SECONDS);
    }

    private static String produce(Map<String, Object> settings) throws Exception {
        List<Long> offsets = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int size : List.of(510_000, 500_000, 10)) {
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>("orders", 0, null, new byte[size]);
                offsets.add(producer.send(record).get(PATIENCE_S, TimeUnit.SECONDS).offset());
            }
            boolean throttled = producer.metrics().entrySet().stream()
                .filter(metric -> metric.getKey().name().equals("produce-throttle-time-max"))
                .anyMatch(metric -> (double) metric.getValue().metricValue() > 0);
            return offsets + " throttled " + throttled;
        }
    }
}
