// Accepts the metrics that clients push and drops them: a broker requests metrics only if it has a receiver.

import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

public class TelemetryReceiver implements MetricsReporter, ClientTelemetry {
    @Override
    public void configure(Map<String, ?> configs) { }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return (context, payload) -> { };
    }
}
