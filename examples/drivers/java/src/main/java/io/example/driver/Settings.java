package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** Translates the neutral settings of the protocol to configs of the client; what is not set keeps its default. */
final class Settings {
    private static final Map<String, String> COMMON = named(
            "bootstrap_servers", "client_id", "request_timeout_ms", "metadata_max_age_ms", "retry_backoff_ms",
            "retry_backoff_max_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms", "connections_max_idle_ms",
            "security_protocol", "sasl_mechanism",
            "socket_setup_timeout_ms=socket.connection.setup.timeout.ms",
            "rebootstrap=metadata.recovery.strategy",
            "rebootstrap_trigger_ms=metadata.recovery.rebootstrap.trigger.ms",
            "tls_ca_file=ssl.truststore.location",
            "username=", "password="); // Both are parts of sasl.jaas.config.

    private static final Map<String, String> PRODUCER = named(
            "acks", "idempotence=enable.idempotence", "linger_ms", "batch_size", "compression=compression.type",
            "max_in_flight=max.in.flight.requests.per.connection", "retries", "delivery_timeout_ms",
            "max_request_size", "transactional_id", "transaction_timeout_ms", "max_block_ms");

    private static final Map<String, String> FETCHING = named(
            "group_id", "fetch_min_bytes", "fetch_max_wait_ms", "fetch_max_bytes",
            "max_partition_fetch_bytes", "max_poll_records", "client_rack", "check_crcs");

    private static final Map<String, String> CONSUMER = named(
            "group_protocol", "group_instance_id", "assignors=partition.assignment.strategy",
            "remote_assignor=group.remote.assignor", "session_timeout_ms", "heartbeat_interval_ms",
            "max_poll_interval_ms", "auto_offset_reset", "enable_auto_commit", "auto_commit_interval_ms",
            "isolation_level");

    private static final Map<String, String> SHARE = named("share_acknowledgement_mode", "share_acquire_mode");

    private static final Map<String, List<Map<String, String>>> BY_KIND = Map.of(
            "producer", List.of(COMMON, PRODUCER),
            "consumer", List.of(COMMON, FETCHING, CONSUMER),
            "share_consumer", List.of(COMMON, FETCHING, SHARE),
            "admin", List.of(COMMON));

    private static final Map<String, String> ASSIGNORS = Map.of(
            "range", "RangeAssignor", "roundrobin", "RoundRobinAssignor",
            "cooperative-sticky", "CooperativeStickyAssignor");

    private Settings() {}

    static Collection<String> names() {
        Collection<String> names = new TreeSet<>();
        BY_KIND.values().forEach(tables -> tables.forEach(table -> names.addAll(table.keySet())));
        return names;
    }

    /** The configs of a client. Throws UnsupportedOperationException for a setting that this kind does not have. */
    static Map<String, Object> translate(String kind, JsonNode settings) {
        Map<String, Object> config = new HashMap<>();
        settings.fields().forEachRemaining(setting -> {
            String key = BY_KIND.getOrDefault(kind, List.of()).stream()
                    .filter(table -> table.containsKey(setting.getKey()))
                    .map(table -> table.get(setting.getKey()))
                    .findFirst()
                    .orElseThrow(() -> new UnsupportedOperationException("setting " + setting.getKey() + " of a " + kind));
            if (!key.isEmpty()) {
                config.put(key, translateValue(setting.getKey(), setting.getValue()));
            }
        });
        if (settings.has("tls_ca_file")) {
            config.put("ssl.truststore.type", "PEM");
        }
        if (settings.has("username")) {
            config.put("sasl.jaas.config", loginModule(settings));
        }
        return config;
    }

    private static String translateValue(String name, JsonNode value) {
        return switch (name) {
            case "bootstrap_servers" -> String.join(",", strings(value));
            case "rebootstrap" -> value.asBoolean() ? "rebootstrap" : "none";
            case "assignors" -> String.join(",", strings(value).stream().map(Settings::assignor).toList());
            default -> value.asText();
        };
    }

    private static String assignor(String name) {
        if (!ASSIGNORS.containsKey(name)) {
            throw new UnsupportedOperationException("assignor " + name);
        }
        return "org.apache.kafka.clients.consumer." + ASSIGNORS.get(name);
    }

    private static String loginModule(JsonNode settings) {
        String mechanism = settings.path("sasl_mechanism").asText("PLAIN");
        String module = switch (mechanism) {
            case "PLAIN" -> "org.apache.kafka.common.security.plain.PlainLoginModule";
            case "SCRAM-SHA-256", "SCRAM-SHA-512" -> "org.apache.kafka.common.security.scram.ScramLoginModule";
            default -> throw new UnsupportedOperationException("sasl_mechanism " + mechanism);
        };
        return module + " required username=" + quote(settings.path("username").asText())
                + " password=" + quote(settings.path("password").asText()) + ";";
    }

    private static String quote(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static List<String> strings(JsonNode list) {
        List<String> strings = new ArrayList<>();
        list.forEach(item -> strings.add(item.asText()));
        return strings;
    }

    /** A table of settings: `name=config`, or only the name where dots instead of underscores make the config. */
    private static Map<String, String> named(String... entries) {
        Map<String, String> table = new LinkedHashMap<>();
        for (String entry : entries) {
            int sign = entry.indexOf('=');
            String name = sign < 0 ? entry : entry.substring(0, sign);
            table.put(name, sign < 0 ? entry.replace('_', '.') : entry.substring(sign + 1));
        }
        return table;
    }
}
