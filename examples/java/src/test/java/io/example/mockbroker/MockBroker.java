package io.example.mockbroker;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;

/**
 * A process of the command {@code mockbroker}, with its control over HTTP.
 *
 * <p>The variable MOCKBROKER names the command if it is not on the PATH. The process ends with {@link #close}, and also
 * when this virtual machine ends in any way, since its standard input is closed then.
 */
public final class MockBroker implements AutoCloseable {
    private static final Duration START_LIMIT = Duration.ofSeconds(30);
    private static final Duration STOP_LIMIT = Duration.ofSeconds(10);
    private static final Duration WAIT_LIMIT = Duration.ofSeconds(10);
    private static final int NEAREST_MAX = 5;

    private final ObjectMapper json = new ObjectMapper();
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final Process process;
    private final String bootstrapServers;
    private final String controlUrl;

    private MockBroker(Process process, String bootstrapServers, String controlUrl) {
        this.process = process;
        this.bootstrapServers = bootstrapServers;
        this.controlUrl = controlUrl;
    }

    /**
     * Starts a cluster on free ports, with short timers, and returns when it accepts connections.
     *
     * @param options of the command, as {@code "--topic", "orders:2"}
     * @throws IllegalStateException if the command cannot be started, or does not print its addresses
     */
    public static MockBroker start(String... options) {
        List<String> command = new ArrayList<>(List.of(
            System.getenv().getOrDefault("MOCKBROKER", "mockbroker"),
            "--port", "0", "--control", "0", "--profile", "quick", "--log-level", "warning", "--exit-with-stdin"));
        command.addAll(List.of(options));
        Process process;
        try {
            process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        } catch (IOException error) {
            throw new IllegalStateException("cannot start " + command, error);
        }
        try {
            List<String> addresses = CompletableFuture.supplyAsync(() -> readAddresses(process))
                .get(START_LIMIT.toSeconds(), TimeUnit.SECONDS);
            if (addresses.size() < 2) {
                throw new IllegalStateException(command + " has ended; its error is in the output above");
            }
            return new MockBroker(process, addresses.get(0), addresses.get(1));
        } catch (InterruptedException | ExecutionException | TimeoutException | IllegalStateException error) {
            process.destroyForcibly();
            throw new IllegalStateException(command + " printed no addresses", error);
        }
    }

    private static List<String> readAddresses(Process process) {
        BufferedReader output = process.inputReader(StandardCharsets.UTF_8);
        return output.lines().limit(2).collect(Collectors.toList());
    }

    /** What clients need as {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** The URL of the control; {@code /openapi.json} below it describes all operations. */
    public String controlUrl() {
        return controlUrl;
    }

    /**
     * Adds a fault, and returns its number.
     *
     * @param when which requests, as {@code Map.of("api", "Produce", "times", 2)}
     * @param then what happens to them, as {@code Map.of("error", "NOT_LEADER_OR_FOLLOWER")}
     */
    public int addFault(Map<String, ?> when, Map<String, ?> then) {
        JsonNode added = request("POST", "/v1/faults", Map.of("when", when, "then", then));
        return added.at("/faults/0/number").asInt();
    }

    /** Fails if a fault has not acted. */
    public void assertFaultsActed() {
        JsonNode misses = request("GET", "/v1/faults/misses", null).get("misses");
        if (!misses.isEmpty()) {
            StringJoiner messages = new StringJoiner("\n");
            misses.forEach(miss -> messages.add(miss.get("message").asText()));
            throw new AssertionError(messages.toString());
        }
    }

    /** Waits until a group is in a state with a number of members, and returns the group. */
    public JsonNode waitForGroup(String groupId, String state, int members) {
        return waitFor("group", Map.of("groupId", groupId, "state", state, "members", members));
    }

    /** Waits until a group has committed an offset, or a later one. */
    public JsonNode waitForOffset(String groupId, String topic, int partition, long offset) {
        return waitFor("offset", Map.of("groupId", groupId, "topic", topic, "partition", partition, "offset", offset));
    }

    /** Waits until a number of requests of an API have come that match the filters of {@code /v1/exchanges}. */
    public JsonNode waitForRequests(String api, int count, Map<String, ?> filters) {
        Map<String, Object> body = new HashMap<>(filters);
        body.put("api", api);
        body.put("count", count);
        return waitFor("request", body);
    }

    private JsonNode waitFor(String what, Map<String, ?> condition) {
        Map<String, Object> body = new HashMap<>(condition);
        body.put("timeoutMs", WAIT_LIMIT.toMillis());
        return request("POST", "/v1/waits/" + what, body);
    }

    /** The requests of an API that match, oldest first, each with its response; see docs/control.md for the filters. */
    public List<JsonNode> exchanges(String api, Map<String, ?> filters) {
        Map<String, Object> parameters = new HashMap<>(filters);
        parameters.put("api", api);
        List<JsonNode> exchanges = new ArrayList<>();
        find(parameters).get("exchanges").forEach(exchanges::add);
        return exchanges;
    }

    /** Fails unless exactly so many requests match; the message has the requests that come nearest. */
    public void assertCount(int expected, String api, Map<String, ?> filters) {
        Map<String, Object> parameters = new HashMap<>(filters);
        parameters.put("api", api);
        parameters.put("bodies", false);
        int count = find(parameters).get("count").asInt();
        if (count != expected) {
            throw new AssertionError("expected " + expected + " requests with " + new TreeMap<>(parameters)
                + ", but there are " + count + "; the nearest:\n" + nearest(api));
        }
    }

    /** The newest requests of this API, or of all if there is none, a line for each. */
    private String nearest(String api) {
        Map<String, Object> newest = new HashMap<>(Map.of("order", "desc", "limit", NEAREST_MAX, "bodies", false));
        newest.put("api", api);
        JsonNode found = find(newest).get("exchanges");
        if (found.isEmpty()) {
            newest.remove("api");
            found = find(newest).get("exchanges");
        }
        StringJoiner lines = new StringJoiner("\n");
        lines.setEmptyValue("  none: no request has come");
        found.forEach(each -> lines.add(String.format("  #%s %s v%s, client %s, topics %s, errors %s, faults %s",
            each.get("number"), each.get("api").asText(), each.get("version"), each.get("clientId"),
            each.get("topics"), each.get("errors"), each.get("faults"))));
        return lines.toString();
    }

    private JsonNode find(Map<String, ?> parameters) {
        String query = parameters.entrySet().stream()
            .map(each -> each.getKey() + "=" + URLEncoder.encode(each.getValue().toString(), StandardCharsets.UTF_8))
            .collect(Collectors.joining("&"));
        return request("GET", "/v1/exchanges?" + query, null);
    }

    /** All topics, records, groups, faults and the history are dropped: the cluster is as after its start. */
    public void reset() {
        request("POST", "/v1/cluster/reset", null);
    }

    /**
     * Sends any operation of the control.
     *
     * @param body is written as JSON; null: none
     * @return the answer; null if it has no body
     * @throws IllegalStateException with the explanation of the control if it refuses, or a wait was in vain
     */
    public JsonNode request(String method, String path, Object body) {
        try {
            HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(controlUrl + path))
                .timeout(WAIT_LIMIT.plusSeconds(10));
            if (body == null) {
                request.method(method, HttpRequest.BodyPublishers.noBody());
            } else {
                request.header("Content-Type", "application/json");
                request.method(method, HttpRequest.BodyPublishers.ofByteArray(json.writeValueAsBytes(body)));
            }
            HttpResponse<byte[]> response = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
            JsonNode answer = response.body().length == 0 ? null : json.readTree(response.body());
            if (response.statusCode() >= 400) {
                String problem = answer == null ? "" : answer.path("detail").asText();
                throw new IllegalStateException(method + " " + path + ": " + response.statusCode() + " " + problem);
            }
            return answer;
        } catch (IOException error) {
            throw new UncheckedIOException(method + " " + path, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(method + " " + path + " was interrupted", error);
        }
    }

    /** Whether the process runs. */
    public boolean isRunning() {
        return process.isAlive();
    }

    /** Ends the process. */
    @Override
    public void close() {
        try {
            process.getOutputStream().close();
            if (!process.waitFor(STOP_LIMIT.toSeconds(), TimeUnit.SECONDS)) {
                throw new IllegalStateException("mockbroker did not end within " + STOP_LIMIT);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        } finally {
            process.destroyForcibly();
        }
    }
}
