// The names of errors.
import kafkajs from 'kafkajs'

export class Unsupported extends Error {}
export class IllegalState extends Error {}
export class TimeLimit extends Error {}

// Names that Kafka has changed since.
const KAFKA_NAMES = {
  UNKNOWN: 'UNKNOWN_SERVER_ERROR',
  NOT_LEADER_FOR_PARTITION: 'NOT_LEADER_OR_FOLLOWER',
  GROUP_LOAD_IN_PROGRESS: 'COORDINATOR_LOAD_IN_PROGRESS',
  GROUP_COORDINATOR_NOT_AVAILABLE: 'COORDINATOR_NOT_AVAILABLE',
  NOT_COORDINATOR_FOR_GROUP: 'NOT_COORDINATOR'
}

const LOCAL_NAMES = {
  Unsupported: 'LOCAL_UNSUPPORTED',
  IllegalState: 'LOCAL_ILLEGAL_STATE',
  TimeLimit: 'LOCAL_TIMEOUT',
  KafkaJSNotImplemented: 'LOCAL_UNSUPPORTED',
  KafkaJSRequestTimeoutError: 'LOCAL_TIMEOUT',
  KafkaJSTimeout: 'LOCAL_TIMEOUT',
  KafkaJSLockTimeout: 'LOCAL_TIMEOUT',
  KafkaJSConnectionError: 'LOCAL_TRANSPORT',
  KafkaJSConnectionClosedError: 'LOCAL_TRANSPORT',
  KafkaJSBrokerNotFound: 'LOCAL_TRANSPORT',
  KafkaJSNoBrokerAvailableError: 'LOCAL_TRANSPORT',
  KafkaJSSASLAuthenticationError: 'LOCAL_AUTHENTICATION',
  KafkaJSNonRetriableError: 'LOCAL_ILLEGAL_STATE' // Of this class itself are the errors of wrong use.
}

// The error that has the reason: the client wraps it when it has tried too often, or when there are several.
function unwrap(error) {
  if (error instanceof kafkajs.KafkaJSAggregateError && error.errors.length > 0) return unwrap(error.errors[0])
  if (error instanceof kafkajs.KafkaJSNumberOfRetriesExceeded && error.cause) return unwrap(error.cause)
  return error
}

function nameOf(error) {
  if (error instanceof kafkajs.KafkaJSProtocolError) {
    return error.type === 'KAFKAJS_UNKNOWN_ERROR_CODE' ? 'LOCAL_OTHER' : KAFKA_NAMES[error.type] ?? error.type
  }
  if (error instanceof kafkajs.KafkaJSConnectionError && /CERT|TLS|SSL|SIGNATURE/.test(error.code)) return 'LOCAL_AUTHENTICATION'
  return LOCAL_NAMES[error.name] ?? LOCAL_NAMES[error.constructor.name] ?? 'LOCAL_OTHER'
}

/** The error as the protocol has it; `retriable` is what the client says. */
export function describe(thrown) {
  const error = unwrap(thrown)
  const described = { name: nameOf(error), message: `${error.name}: ${error.message}` }
  return typeof error.retriable === 'boolean' ? { ...described, retriable: error.retriable } : described
}

/** The outcome of a promise, or TimeLimit: the client has no time limits of single calls. */
export async function withinTime(promise, timeoutMs) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TimeLimit(`not done within ${timeoutMs} ms`)), timeoutMs)
  })
  try {
    return await Promise.race([promise, limit])
  } finally {
    clearTimeout(timer)
  }
}
