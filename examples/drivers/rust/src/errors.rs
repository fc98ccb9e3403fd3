//! The names of errors.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::{json, Value};

/// Kafka's names of the codes from 1 on.
const KAFKA_NAMES: &str = "\
    OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE \
    NOT_LEADER_OR_FOLLOWER REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE MESSAGE_TOO_LARGE \
    STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION COORDINATOR_LOAD_IN_PROGRESS \
    COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INVALID_TOPIC_EXCEPTION RECORD_LIST_TOO_LARGE \
    NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS ILLEGAL_GENERATION \
    INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT \
    REBALANCE_IN_PROGRESS INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED \
    CLUSTER_AUTHORIZATION_FAILED INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE \
    UNSUPPORTED_VERSION TOPIC_ALREADY_EXISTS INVALID_PARTITIONS INVALID_REPLICATION_FACTOR \
    INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG NOT_CONTROLLER INVALID_REQUEST UNSUPPORTED_FOR_MESSAGE_FORMAT \
    POLICY_VIOLATION OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH \
    INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS \
    TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED \
    OPERATION_NOT_ATTEMPTED KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND SASL_AUTHENTICATION_FAILED \
    UNKNOWN_PRODUCER_ID REASSIGNMENT_IN_PROGRESS DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND \
    DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_AUTHORIZATION_FAILED \
    DELEGATION_TOKEN_EXPIRED INVALID_PRINCIPAL_TYPE NON_EMPTY_GROUP GROUP_ID_NOT_FOUND \
    FETCH_SESSION_ID_NOT_FOUND INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND TOPIC_DELETION_DISABLED \
    FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNSUPPORTED_COMPRESSION_TYPE STALE_BROKER_EPOCH \
    OFFSET_NOT_AVAILABLE MEMBER_ID_REQUIRED PREFERRED_LEADER_NOT_AVAILABLE GROUP_MAX_SIZE_REACHED \
    FENCED_INSTANCE_ID ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS \
    GROUP_SUBSCRIBED_TO_TOPIC INVALID_RECORD UNSTABLE_OFFSET_COMMIT THROTTLING_QUOTA_EXCEEDED PRODUCER_FENCED \
    RESOURCE_NOT_FOUND DUPLICATE_RESOURCE UNACCEPTABLE_CREDENTIAL INCONSISTENT_VOTER_SET \
    INVALID_UPDATE_VERSION FEATURE_UPDATE_FAILED PRINCIPAL_DESERIALIZATION_FAILURE SNAPSHOT_NOT_FOUND \
    POSITION_OUT_OF_RANGE UNKNOWN_TOPIC_ID DUPLICATE_BROKER_REGISTRATION BROKER_ID_NOT_REGISTERED \
    INCONSISTENT_TOPIC_ID INCONSISTENT_CLUSTER_ID TRANSACTIONAL_ID_NOT_FOUND FETCH_SESSION_TOPIC_ID_ERROR \
    INELIGIBLE_REPLICA NEW_LEADER_ELECTED OFFSET_MOVED_TO_TIERED_STORAGE FENCED_MEMBER_EPOCH \
    UNRELEASED_INSTANCE_ID UNSUPPORTED_ASSIGNOR STALE_MEMBER_EPOCH MISMATCHED_ENDPOINT_TYPE \
    UNSUPPORTED_ENDPOINT_TYPE UNKNOWN_CONTROLLER_ID UNKNOWN_SUBSCRIPTION_ID TELEMETRY_TOO_LARGE \
    INVALID_REGISTRATION TRANSACTION_ABORTABLE INVALID_RECORD_STATE SHARE_SESSION_NOT_FOUND \
    INVALID_SHARE_SESSION_EPOCH FENCED_STATE_EPOCH INVALID_VOTER_KEY DUPLICATE_VOTER VOTER_NOT_FOUND \
    INVALID_REGULAR_EXPRESSION REBOOTSTRAP_REQUIRED STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH \
    STREAMS_TOPOLOGY_FENCED SHARE_SESSION_LIMIT_REACHED GROUP_DELETION_FAILED \
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED CONTROLLER_ID_NOT_REGISTERED";

/// An error of the driver or of the client, with the name that it has in the protocol.
#[derive(Debug, Clone)]
pub struct Failure {
    name: String,
    message: String,
    fatal: Option<bool>,
    retriable: Option<bool>,
    abortable: Option<bool>,
}

impl Failure {
    pub fn local(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), fatal: None, retriable: None, abortable: None }
    }

    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::local("LOCAL_UNSUPPORTED", format!("{}: not supported", what.into()))
    }

    pub fn illegal_state(message: impl Into<String>) -> Self {
        Self::local("LOCAL_ILLEGAL_STATE", message)
    }

    /// A fatal error, which the client keeps: every call fails with `Fatal` after it.
    pub fn fatal(code: RDKafkaErrorCode, reason: String) -> Self {
        Self { fatal: Some(true), ..Self::local(&name_of(code), reason) }
    }

    pub fn describe(&self) -> Value {
        let mut described = json!({"name": self.name, "message": self.message});
        for (flag, value) in [("fatal", self.fatal), ("retriable", self.retriable), ("abortable", self.abortable)] {
            if let Some(value) = value {
                described[flag] = json!(value);
            }
        }
        described
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        let message = error.to_string();
        if let KafkaError::Transaction(inner) = &error {
            return Self {
                fatal: Some(inner.is_fatal()),
                retriable: Some(inner.is_retriable()),
                abortable: Some(inner.txn_requires_abort()),
                ..Self::local(&name_of(inner.code()), message)
            };
        }
        let name = match (&error, error.rdkafka_error_code()) {
            (KafkaError::AdminOp(code), _) => name_of(*code),
            (KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_), _) => "LOCAL_ILLEGAL_STATE".to_owned(),
            (_, Some(code)) => name_of(code),
            _ => "LOCAL_OTHER".to_owned(),
        };
        Self::local(&name, message)
    }
}

/// What the client found itself has a negative code.
fn name_of(code: RDKafkaErrorCode) -> String {
    use RDKafkaErrorCode as Code;
    let local = match code {
        Code::OperationTimedOut | Code::MessageTimedOut | Code::TimedOutQueue => "LOCAL_TIMEOUT",
        Code::Authentication | Code::SSL => "LOCAL_AUTHENTICATION",
        Code::State | Code::InvalidArgument | Code::Conflict => "LOCAL_ILLEGAL_STATE",
        Code::NotImplemented | Code::UnsupportedFeature => "LOCAL_UNSUPPORTED",
        Code::NoOffset | Code::AutoOffsetReset => "LOCAL_NO_OFFSET",
        Code::BrokerTransportFailure | Code::AllBrokersDown | Code::Resolve => "LOCAL_TRANSPORT",
        Code::Fatal => "LOCAL_FATAL",
        Code::UnknownTopic | Code::UnknownPartition => "UNKNOWN_TOPIC_OR_PARTITION",
        Code::Fenced => "PRODUCER_FENCED",
        Code::Unknown => "UNKNOWN_SERVER_ERROR",
        _ => "LOCAL_OTHER",
    };
    let index = usize::try_from(code as i32 - 1).ok();
    index.and_then(|index| KAFKA_NAMES.split_whitespace().nth(index)).unwrap_or(local).to_owned()
}

/// Whether an error only concerns connections, which the client restores: not for the application.
pub fn is_informational(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::Resolve)
    )
}
