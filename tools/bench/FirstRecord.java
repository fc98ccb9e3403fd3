import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Milliseconds from subscribe to the first record: FirstRecord BOOTSTRAP TOPIC classic|consumer|share ROUNDS POLL_MS. */
class FirstRecord {
    private static final long LIMIT_NS = 60_000_000_000L;

    public static void main(String[] arguments) {
        Duration poll = Duration.ofMillis(Long.parseLong(arguments[4]));
        for (int round = 0; round < Integer.parseInt(arguments[3]); round++) {
            String group = arguments[2] + "-" + round;
            long tookNs = arguments[2].equals("share")
                ? share(arguments[0], arguments[1], group, poll)
                : consume(arguments[0], arguments[1], group, arguments[2], poll);
            System.out.println(tookNs / 1e6);
        }
    }

    private static Properties settings(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return settings;
    }

    private static long consume(String bootstrap, String topic, String group, String protocol, Duration poll) {
        Properties settings = settings(bootstrap, group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("group.protocol", protocol);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            long began = System.nanoTime();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(poll).isEmpty()) {
                checkLimit(began);
            }
            return System.nanoTime() - began;
        }
    }

    private static long share(String bootstrap, String topic, String group, Duration poll) {
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings(bootstrap, group))) {
            long began = System.nanoTime();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(poll).isEmpty()) {
                checkLimit(began);
            }
            return System.nanoTime() - began;
        }
    }

    private static void checkLimit(long began) {
        if (System.nanoTime() - began > LIMIT_NS) {
            throw new IllegalStateException("no record within a minute");
        }
    }
}
