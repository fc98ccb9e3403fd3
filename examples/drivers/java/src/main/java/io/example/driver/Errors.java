package io.example.driver;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.consumer.RetriableCommitFailedException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.DisconnectException;
import org.apache.kafka.common.errors.NetworkException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.SslAuthenticationException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.TransactionAbortableException;

/** Gives an exception of the client the name that it has in the protocol. */
final class Errors {
    private Errors() {}

    /** The error as the protocol has it; `retriable`, `fatal` and `abortable` are what the exception's class says. */
    static Map<String, Object> describe(Throwable thrown) {
        Throwable error = unwrap(thrown);
        Map<String, Object> described = new HashMap<>();
        described.put("name", nameOf(error));
        described.put("message", String.valueOf(error.getMessage() == null ? error : error.getMessage()));
        if (error instanceof KafkaException) {
            described.put("retriable", error instanceof RetriableException);
            described.put("fatal", error instanceof ApplicationRecoverableException);
            described.put("abortable", error instanceof TransactionAbortableException);
        }
        return described;
    }

    /** An error or null, where the protocol has null for success. */
    static Map<String, Object> describeOrNull(Throwable thrown) {
        return thrown == null ? null : describe(thrown);
    }

    /** The exception that has the reason: the client wraps it to throw it in the caller's thread. */
    private static Throwable unwrap(Throwable error) {
        boolean wraps = error instanceof ExecutionException || error instanceof RetriableCommitFailedException
                || error.getClass() == KafkaException.class;
        return wraps && error.getCause() != null ? unwrap(error.getCause()) : error;
    }

    private static String nameOf(Throwable error) {
        if (error instanceof UnsupportedOperationException) {
            return "LOCAL_UNSUPPORTED";
        } else if (error instanceof IllegalStateException || error instanceof IllegalArgumentException
                || error instanceof ConfigException) {
            return "LOCAL_ILLEGAL_STATE";
        } else if (error instanceof NoOffsetForPartitionException) {
            return "LOCAL_NO_OFFSET";
        } else if (error instanceof OffsetOutOfRangeException) {
            return "OFFSET_OUT_OF_RANGE"; // Of the consumer's package; the broker's error has another class.
        } else if (error instanceof java.util.concurrent.TimeoutException || isOwnTimeout(error)) {
            return "LOCAL_TIMEOUT";
        } else if (error instanceof NetworkException || error instanceof DisconnectException) {
            return "LOCAL_TRANSPORT";
        } else if (error instanceof SslAuthenticationException) {
            return "LOCAL_AUTHENTICATION";
        }
        var code = org.apache.kafka.common.protocol.Errors.forException(error);
        boolean known = code.exception() != null && code.exception().getClass().isInstance(error);
        return known ? code.name() : "LOCAL_OTHER";
    }

    /** One class is both the broker's REQUEST_TIMED_OUT and the client's own time limits, which have their own texts. */
    private static boolean isOwnTimeout(Throwable error) {
        String ofBroker = org.apache.kafka.common.protocol.Errors.REQUEST_TIMED_OUT.message();
        return error instanceof TimeoutException && !ofBroker.equals(error.getMessage());
    }
}
