package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.errors.WakeupException;

/** The poll of both kinds of consumers, and the events that callbacks have left since the last one. */
final class Polling {
    private static final ScheduledExecutorService TIMER = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread created = new Thread(task, "driver-wakeup");
        created.setDaemon(true);
        return created;
    });
    /** How long one call of the client's poll waits: it does not return for a callback alone. */
    private static final Duration SLICE = Duration.ofMillis(100);

    private final Queue<Object> events = new ConcurrentLinkedQueue<>();
    private final Function<Duration, Iterable<ConsumerRecord<String, String>>> poll;
    private final Runnable wakeup;

    Polling(Function<Duration, Iterable<ConsumerRecord<String, String>>> poll, Runnable wakeup) {
        this.poll = poll;
        this.wakeup = wakeup;
    }

    void add(Object event) {
        events.add(event);
    }

    List<Object> takeEvents() {
        List<Object> taken = new ArrayList<>();
        for (Object event = events.poll(); event != null; event = events.poll()) {
            taken.add(event);
        }
        return taken;
    }

    /** Polls until there is a record or an event. A wakeup ends it early, without either. */
    Object poll(JsonNode params, Duration timeout, Consumer<ConsumerRecord<String, String>> received) {
        if (params.hasNonNull("max_records")) {
            throw new UnsupportedOperationException("max_records of a poll; max_poll_records is a setting");
        }
        ScheduledFuture<?> timer = params.hasNonNull("wakeup_after_ms")
                ? TIMER.schedule(wakeup, params.path("wakeup_after_ms").asLong(), TimeUnit.MILLISECONDS)
                : null;
        List<Object> records = new ArrayList<>();
        try {
            long deadline = System.nanoTime() + timeout.toNanos();
            Duration left = timeout;
            do {
                poll.apply(left.compareTo(SLICE) < 0 ? left : SLICE)
                        .forEach(record -> {
                            received.accept(record);
                            records.add(OpenClient.record(record));
                        });
                left = Duration.ofNanos(Math.max(deadline - System.nanoTime(), 0));
            } while (records.isEmpty() && events.isEmpty() && !left.isZero());
        } catch (WakeupException woken) {
            // The poll ends here.
        } finally {
            if (timer != null) {
                timer.cancel(false);
            }
        }
        return Map.of("records", records, "events", takeEvents());
    }
}
