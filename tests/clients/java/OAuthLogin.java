import java.io.FileReader;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Apache Kafka's producer with a login by OAUTHBEARER. Arguments: a properties file, and how many records to send, each
 * after a pause in milliseconds. Writes "sent COUNT", or the class and the message of the error.
 */
public class OAuthLogin {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            settings.load(file);
        }
        // Without this, Kafka's clients open no token endpoint.
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls",
                settings.getProperty("sasl.oauthbearer.token.endpoint.url", ""));
        int count = Integer.parseInt(arguments[1]);
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (int sent = 0; sent < count; sent++) {
                producer.send(new ProducerRecord<>("orders", "espresso")).get();
                Thread.sleep(Integer.parseInt(arguments[2]));
            }
            System.out.println("sent " + count);
        } catch (ExecutionException error) {
            System.out.println(error.getCause().getClass().getSimpleName() + ": " + error.getCause().getMessage());
        }
    }
}
