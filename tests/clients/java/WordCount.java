import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams counts words in a group of the streams protocol: one instance, then two, then the second one alone.
 * Writes one line for each step: its name, a colon, and what was seen.
 */
public class WordCount {
    private static final Duration PATIENCE = Duration.ofSeconds(25);
    private static final int PARTITIONS = 4;
    private static final String APPLICATION = "word-count";

    private final String bootstrap;
    private final String guarantee;
    private final Map<String, Long> counts = new TreeMap<>();
    private long sent;

    private WordCount(String bootstrap, String guarantee) {
        this.bootstrap = bootstrap;
        this.guarantee = guarantee;
    }

    /** bootstrap servers, and what is guaranteed of each record: at_least_once or exactly_once_v2. */
    public static void main(String[] arguments) throws Exception {
        new WordCount(arguments[0], arguments[1]).play();
    }

    private void play() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
            KafkaProducer<String, String> producer = producer();
            KafkaConsumer<String, Long> consumer = consumer()) {
            admin.createTopics(List.of(new NewTopic("lines", PARTITIONS, (short) 1), new NewTopic("counts", 1, (short) 1)))
                .all().get();
            consumer.assign(List.of(new TopicPartition("counts", 0)));
            consumer.seekToBeginning(List.of(new TopicPartition("counts", 0)));
            KafkaStreams first = instance("first");
            KafkaStreams second = instance("second");
            first.start();
            say("one", () -> counted(producer, consumer, "to be or not to be") + " by " + tasks(first));
            second.start();
            until(() -> tasks(first) == PARTITIONS && tasks(second) == PARTITIONS);
            say("two", () -> counted(producer, consumer, "be it so") + " by " + tasks(first) + " and " + tasks(second));
            say("group", () -> described(admin));
            first.close();
            until(() -> tasks(second) == 2 * PARTITIONS);
            say("left", () -> counted(producer, consumer, "so it is to be") + " by " + tasks(second));
            second.close();
            say("empty", () -> described(admin));
            say("made", () -> made(admin));
        }
    }

    private KafkaStreams instance(String name) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("totals")))
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, APPLICATION);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, name);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        String folder = System.getProperty("java.io.tmpdir") + "/word-count-" + name + System.nanoTime();
        settings.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        return new KafkaStreams(builder.build(), settings);
    }

    private KafkaProducer<String, String> producer() {
        return new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, Long> consumer() {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer());
    }

    /** Sends a line by a partition of its own, and waits until each of its words is counted. */
    private String counted(KafkaProducer<String, String> producer, KafkaConsumer<String, Long> consumer, String line) {
        producer.send(new ProducerRecord<>("lines", (int) (sent % PARTITIONS), null, line));
        producer.flush();
        sent += 1;
        Map<String, Long> wanted = new TreeMap<>(counts);
        for (String word : line.split(" ")) {
            wanted.merge(word, 1L, Long::sum);
        }
        until(() -> {
            for (ConsumerRecord<String, Long> record : consumer.poll(Duration.ofMillis(50))) {
                counts.put(record.key(), record.value());
            }
            return counts.equals(wanted);
        });
        return counts.toString();
    }

    private static int tasks(KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream().mapToInt(thread -> thread.activeTasks().size()).sum();
    }

    private static String described(Admin admin) {
        try {
            StreamsGroupDescription group =
                admin.describeStreamsGroups(List.of(APPLICATION)).all().get().get(APPLICATION);
            String subtopologies = group.subtopologies().stream()
                .map(each -> each.subtopologyId() + each.sourceTopics() + each.repartitionSourceTopics().keySet())
                .collect(Collectors.joining(" "));
            return group.groupState() + " " + group.members().size() + " " + subtopologies;
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static String made(Admin admin) {
        try {
            List<String> names = admin.listTopics().names().get().stream()
                .filter(name -> name.startsWith(APPLICATION)).sorted().collect(Collectors.toList());
            return admin.describeTopics(names).allTopicNames().get().values().stream()
                .map(topic -> topic.name() + " " + topic.partitions().size()).sorted().collect(Collectors.joining(", "));
        } catch (Exception problem) {
            throw new IllegalStateException(problem);
        }
    }

    private static void until(BooleanSupplier there) {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!there.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException("nothing of it within " + PATIENCE);
            }
            LockSupport.parkNanos(20_000_000);
        }
    }

    private static void say(String name, Supplier<String> what) {
        System.out.println(name + ": " + what.get());
    }
}
