package io.example.driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** Reads requests of the driver protocol from stdin, one JSON object a line, and answers each on stdout. */
public final class Driver {
    private static final int PROTOCOL = 1;
    private static final long DEFAULT_TIMEOUT_MS = 10_000;
    private static final List<String> CAPABILITIES = List.of(
            "producer", "producer.idempotence", "producer.transactions",
            "consumer.assign", "consumer.classic", "consumer.classic.cooperative", "consumer.classic.static",
            "consumer.kip848", "consumer.kip848.regex", "consumer.pattern", "consumer.rebalance_events",
            "consumer.wakeup", "consumer.seek", "consumer.pause", "consumer.offsets",
            "share", "share.explicit", "share.commit", "share.callback", "share.renew", "share.delivery_count",
            "share.lock_timeout", "share.wakeup",
            "admin.topics", "admin.cluster", "admin.offsets",
            "sasl.plain", "sasl.scram", "tls",
            "compression.gzip", "compression.snappy", "compression.lz4", "compression.zstd");

    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, OpenClient> clients = new HashMap<>();

    public static void main(String[] args) throws IOException {
        PrintStream answers = System.out;
        System.setOut(System.err); // Only answers may stand on stdout.
        Driver driver = new Driver();
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.write((driver.answer(line) + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // The clients are left as a crash leaves them.
    }

    private String answer(String line) throws IOException {
        JsonNode request = json.readTree(line);
        Map<String, Object> answer = new HashMap<>();
        answer.put("id", request.path("id").asLong());
        try {
            answer.put("result", call(request.path("method").asText(), request.path("params")));
        } catch (Exception error) {
            answer.put("error", Errors.describe(error));
        }
        return json.writeValueAsString(answer);
    }

    private Object call(String method, JsonNode params) throws Exception {
        switch (method) {
            case "hello":
                return hello(params);
            case "open":
                open(params);
                return Map.of();
            default:
                return callClient(method, params);
        }
    }

    private Object callClient(String method, JsonNode params) throws Exception {
        if (!params.hasNonNull("client")) {
            throw new UnsupportedOperationException("method " + method);
        }
        String name = params.path("client").asText();
        OpenClient client = find(name);
        long timeoutMs = params.path("timeout_ms").asLong(DEFAULT_TIMEOUT_MS);
        try {
            return client.run(method, params, timeoutMs);
        } finally {
            if (method.equals("close")) {
                clients.remove(name);
            }
        }
    }

    private static Object hello(JsonNode params) throws IOException {
        if (params.path("protocol").asInt() != PROTOCOL) {
            throw new UnsupportedOperationException("this driver speaks version " + PROTOCOL + " of the protocol");
        }
        return Map.of(
                "protocol", PROTOCOL, "name", "kafka-clients", "version", version(),
                "language", "Java", "capabilities", CAPABILITIES, "settings", Settings.names());
    }

    private static String version() throws IOException {
        Properties properties = new Properties();
        try (var file = Driver.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(file);
        }
        return properties.getProperty("version");
    }

    private void open(JsonNode params) {
        String name = params.path("client").asText();
        if (clients.containsKey(name)) {
            throw new IllegalStateException("a client " + name + " is open");
        }
        String kind = params.path("kind").asText();
        Map<String, Object> config = Settings.translate(kind, params.path("settings"));
        clients.put(name, switch (kind) {
            case "producer" -> new ProducerClient(config, this::find);
            case "consumer" -> new ConsumerClient(config);
            case "share_consumer" -> new ShareConsumerClient(config);
            case "admin" -> new AdminClient(config);
            default -> throw new UnsupportedOperationException("a client of kind " + kind);
        });
    }

    private OpenClient find(String name) {
        OpenClient client = clients.get(name);
        if (client == null) {
            throw new IllegalStateException("no client " + name + " is open");
        }
        return client;
    }
}
