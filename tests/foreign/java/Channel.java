import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/**
 * The line protocol between this virtual machine and the Python process that started it and that runs the clusters
 * (tests/foreign/java_process.py): one JSON object a line. Requests for clusters go out, one response comes for each.
 */
class Channel {
    private static Channel shared;

    private final ObjectMapper mapper = new ObjectMapper();
    private final BufferedReader input;
    private final PrintStream output;

    private Channel(InputStream input, PrintStream output) {
        this.input = new BufferedReader(new InputStreamReader(input, StandardCharsets.UTF_8));
        this.output = output;
    }

    /** Open the channel that all tests of this virtual machine share. */
    static Channel open(InputStream input, PrintStream output) {
        shared = new Channel(input, output);
        return shared;
    }

    static Channel shared() {
        return shared;
    }

    ObjectNode newMessage() {
        return mapper.createObjectNode();
    }

    synchronized void write(ObjectNode message) {
        output.println(message);
        output.flush();
    }

    /** The next selector, or null at the end of the input. */
    synchronized String readSelector() throws IOException {
        String line = input.readLine();
        return line == null ? null : mapper.readTree(line).get("run").asText();
    }

    /** Send a request about the cluster. Returns: the response. Throws: IllegalStateException with its error. */
    synchronized JsonNode request(ObjectNode message) {
        write(message);
        try {
            String line = input.readLine();
            if (line == null) {
                throw new IllegalStateException("the channel was closed");
            }
            JsonNode response = mapper.readTree(line);
            if (response.has("error")) {
                throw new IllegalStateException(message.get("cluster").asText() + ": " + response.get("error").asText());
            }
            return response;
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
