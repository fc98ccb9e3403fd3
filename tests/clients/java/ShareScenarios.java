import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.ShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's share consumer in the situations that an application can bring it into, all at once, each with a topic
 * and a group of its own. Writes one line for each: its name, a colon, and what was seen.
 */
public class ShareScenarios {
    private static final Duration PATIENCE = Duration.ofSeconds(20);
    private static final Duration MOMENT = Duration.ofMillis(200);
    /** Short, but long enough for a busy machine. */
    private static final int LOCK_MS = 2_000;

    private final String bootstrap;
    private final String name;

    private ShareScenarios(String bootstrap, String name) {
        this.bootstrap = bootstrap;
        this.name = name;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Function<ShareScenarios, Callable<String>>> scenarios = new LinkedHashMap<>();
        scenarios.put("implicit", scenario -> scenario::implicit);
        scenarios.put("explicit", scenario -> scenario::explicit);
        scenarios.put("renew", scenario -> scenario::renew);
        scenarios.put("record-limit", scenario -> scenario::recordLimit);
        scenarios.put("read-committed", scenario -> scenario::readCommitted);
        scenarios.put("delivery-limit", scenario -> scenario::deliveryLimit);
        scenarios.put("wakeup", scenario -> scenario::wakeUp);
        scenarios.put("close-while-holding", scenario -> scenario::closeWhileHolding);
        scenarios.put("stalled", scenario -> scenario::stalled);
        ExecutorService threads = Executors.newFixedThreadPool(scenarios.size());
        Map<String, Future<String>> running = new LinkedHashMap<>();
        scenarios.forEach((name, make) ->
            running.put(name, threads.submit(make.apply(new ShareScenarios(arguments[0], name)))));
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
        prepare(Map.of(), 20);
        int got = 0;
        try (ShareConsumer<String, String> consumer = consumer(Map.of())) {
            got += take(consumer, 20).size();
            consumer.poll(MOMENT);
        }
        try (ShareConsumer<String, String> another = consumer(Map.of())) {
            return got + " and then " + nothing(another);
        }
    }

    private String explicit() throws Exception {
        prepare(Map.of(), 6);
        List<AcknowledgeType> kinds = List.of(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT);
        Map<Long, Integer> deliveries = new TreeMap<>();
        String outcome;
        try (ShareConsumer<String, String> consumer = consumer(explicitly())) {
            for (ConsumerRecord<String, String> record : take(consumer, 6)) {
                consumer.acknowledge(record, kinds.get((int) record.offset() % 3));
            }
            outcome = outcome(consumer.commitSync());
            for (ConsumerRecord<String, String> record : take(consumer, 2)) {
                deliveries.put(record.offset(), (int) record.deliveryCount().get());
                consumer.acknowledge(record);
            }
            outcome += " " + outcome(consumer.commitSync());
        }
        return outcome + " again " + deliveries;
    }

    private String renew() throws Exception {
        prepare(Map.of("share.record.lock.duration.ms", "" + LOCK_MS), 1);
        StringBuilder outcomes = new StringBuilder();
        int count = 0;
        try (ShareConsumer<String, String> consumer = consumer(explicitly())) {
            ConsumerRecord<String, String> record = take(consumer, 1).get(0);
            outcomes.append(consumer.acquisitionLockTimeoutMs().get());
            for (int i = 0; i < 3; i++) {
                Thread.sleep(LOCK_MS * 6 / 10);
                consumer.acknowledge(record, AcknowledgeType.RENEW);
                outcomes.append(' ').append(outcome(consumer.commitSync()));
                record = take(consumer, 1).get(0);
                count = record.deliveryCount().get();
            }
            consumer.acknowledge(record);
            outcomes.append(' ').append(outcome(consumer.commitSync()));
        }
        return outcomes + " delivered " + count;
    }

    private String recordLimit() throws Exception {
        prepare(Map.of(), 10);
        List<Integer> sizes = new ArrayList<>();
        Map<String, Object> settings = new TreeMap<>(explicitly());
        settings.put("share.acquire.mode", "record_limit");
        settings.put("max.poll.records", 3);
        try (ShareConsumer<String, String> consumer = consumer(settings)) {
            for (int seen = 0; seen < 10;) {
                List<ConsumerRecord<String, String>> records = take(consumer, 1);
                records.forEach(consumer::acknowledge);
                consumer.commitSync();
                sizes.add(records.size());
                seen += records.size();
            }
        }
        return sizes.toString();
    }

    private String readCommitted() throws Exception {
        prepare(Map.of("share.isolation.level", "read_committed"), 0);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", name);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (String kind : List.of("first", "aborted", "last")) {
                producer.beginTransaction();
                for (int i = 0; i < 3; i++) {
                    producer.send(new ProducerRecord<>(name, 0, null, kind + i));
                }
                producer.flush();
                if (kind.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        try (ShareConsumer<String, String> consumer = consumer(Map.of())) {
            List<String> values = take(consumer, 6).stream().map(ConsumerRecord::value).collect(Collectors.toList());
            return values + " and then " + nothing(consumer);
        }
    }

    private String deliveryLimit() throws Exception {
        prepare(Map.of("share.delivery.count.limit", "2"), 1);
        List<Integer> counts = new ArrayList<>();
        try (ShareConsumer<String, String> consumer = consumer(explicitly())) {
            for (int i = 0; i < 2; i++) {
                ConsumerRecord<String, String> record = take(consumer, 1).get(0);
                counts.add((int) record.deliveryCount().get());
                consumer.acknowledge(record, AcknowledgeType.RELEASE);
                consumer.commitSync();
            }
            return counts + " and then " + nothing(consumer);
        }
    }

    private String wakeUp() throws Exception {
        prepare(Map.of(), 1);
        try (ShareConsumer<String, String> consumer = consumer(Map.of())) {
            take(consumer, 1);
            Thread alarm = new Thread(() -> {
                try {
                    Thread.sleep(300);
                } catch (InterruptedException early) {
                    Thread.currentThread().interrupt();
                }
                consumer.wakeup();
            });
            alarm.start();
            String outcome = "not woken";
            try {
                consumer.poll(PATIENCE);
            } catch (WakeupException woken) {
                outcome = "woken";
            }
            alarm.join();
            produce(1);
            return outcome + " and then " + take(consumer, 1).size();
        }
    }

    private String closeWhileHolding() throws Exception {
        prepare(Map.of(), 5);
        int held;
        try (ShareConsumer<String, String> consumer = consumer(explicitly())) {
            held = take(consumer, 5).size();
        }
        long closed = System.nanoTime();
        try (ShareConsumer<String, String> another = consumer(Map.of())) {
            List<Integer> counts = counts(take(another, 5));
            boolean early = System.nanoTime() - closed < 10_000_000_000L;
            return held + " held, again " + counts + (early ? " before" : " after") + " the lock's end";
        }
    }

    private String stalled() throws Exception {
        prepare(Map.of("share.record.lock.duration.ms", "" + LOCK_MS), 5);
        try (ShareConsumer<String, String> stalled = consumer(explicitly())) {
            List<ConsumerRecord<String, String>> late = take(stalled, 5);
            Thread.sleep(LOCK_MS + 500);
            try (ShareConsumer<String, String> another = consumer(explicitly())) {
                List<ConsumerRecord<String, String>> again = take(another, 5);
                late.forEach(stalled::acknowledge);
                String refused = outcome(stalled.commitSync());
                again.forEach(another::acknowledge);
                // On a busy machine the lock of a second delivery may have ended before its records were taken.
                boolean wereDelivered = counts(again).stream().allMatch(count -> count >= 2);
                return refused + ", again " + (wereDelivered ? "" : counts(again) + " ") + outcome(another.commitSync());
            }
        }
    }

    // What the scenarios are made of.

    private void prepare(Map<String, String> groupSettings, int count) throws Exception {
        Map<String, String> settings = new TreeMap<>(groupSettings);
        settings.put("share.auto.offset.reset", "earliest");
        Collection<AlterConfigOp> changes = settings.entrySet().stream()
            .map(one -> new AlterConfigOp(new ConfigEntry(one.getKey(), one.getValue()), AlterConfigOp.OpType.SET))
            .collect(Collectors.toList());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
            admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), changes)).all().get();
        }
        produce(count);
    }

    /** All records in one batch. */
    private void produce(int count) {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "linger.ms", 200);
        try (KafkaProducer<String, String> producer =
                 new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(name, 0, null, "value " + i));
            }
        }
    }

    private ShareConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = new TreeMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", name);
        ShareConsumer<String, String> consumer =
            new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(name));
        return consumer;
    }

    private static Map<String, Object> explicitly() {
        return Map.of("share.acknowledgement.mode", "explicit");
    }

    /** Poll until there are at least so many records. */
    private List<ConsumerRecord<String, String>> take(ShareConsumer<String, String> consumer, int count) {
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
        for (int i = 0; i < 5; i++) {
            count += consumer.poll(MOMENT).count();
        }
        return count == 0 ? "nothing" : count + " more";
    }

    private static List<Integer> counts(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(record -> (int) record.deliveryCount().get()).collect(Collectors.toList());
    }

    private static String outcome(Map<TopicIdPartition, java.util.Optional<KafkaException>> result) {
        return result.values().stream()
            .map(error -> error.map(one -> one.getClass().getSimpleName()).orElse("good"))
            .collect(Collectors.joining(","));
    }
}
