// Translates the neutral settings of the protocol to the options of kafkajs; what is not set keeps its default.
import { readFileSync } from 'node:fs'

import kafkajs from 'kafkajs'

import { Unsupported } from './errors.js'

// Where a setting goes: an object of options, and the path in it. `kafka` is the object of all clients.
const COMMON = {
  bootstrap_servers: ['kafka', 'brokers'],
  client_id: ['kafka', 'clientId'],
  request_timeout_ms: ['kafka', 'requestTimeout'],
  socket_setup_timeout_ms: ['kafka', 'connectionTimeout'],
  retry_backoff_ms: ['retry', 'initialRetryTime'],
  retry_backoff_max_ms: ['retry', 'maxRetryTime'],
  security_protocol: ['driver', 'securityProtocol'],
  sasl_mechanism: ['driver', 'mechanism'],
  username: ['driver', 'username'],
  password: ['driver', 'password'],
  tls_ca_file: ['driver', 'caFile']
}
const PRODUCER = {
  metadata_max_age_ms: ['client', 'metadataMaxAge'],
  retries: ['retry', 'retries'],
  acks: ['driver', 'acks'],
  compression: ['driver', 'compression'],
  idempotence: ['client', 'idempotent'],
  max_in_flight: ['client', 'maxInFlightRequests'],
  transactional_id: ['client', 'transactionalId'],
  transaction_timeout_ms: ['client', 'transactionTimeout']
}
const CONSUMER = {
  metadata_max_age_ms: ['client', 'metadataMaxAge'],
  group_id: ['client', 'groupId'],
  session_timeout_ms: ['client', 'sessionTimeout'],
  heartbeat_interval_ms: ['client', 'heartbeatInterval'],
  auto_offset_reset: ['driver', 'autoOffsetReset'],
  enable_auto_commit: ['run', 'autoCommit'],
  auto_commit_interval_ms: ['run', 'autoCommitInterval'],
  isolation_level: ['driver', 'isolationLevel'],
  fetch_min_bytes: ['client', 'minBytes'],
  fetch_max_wait_ms: ['client', 'maxWaitTimeInMs'],
  fetch_max_bytes: ['client', 'maxBytes'],
  max_partition_fetch_bytes: ['client', 'maxBytesPerPartition'],
  client_rack: ['client', 'rackId']
}
const TABLES = { producer: { ...COMMON, ...PRODUCER }, consumer: { ...COMMON, ...CONSUMER }, admin: COMMON }
const MECHANISMS = { PLAIN: 'plain', 'SCRAM-SHA-256': 'scram-sha-256', 'SCRAM-SHA-512': 'scram-sha-512' }

export const settingNames = () => [...new Set(Object.values(TABLES).flatMap(table => Object.keys(table)))].sort()

/** The options of a client: `kafka` and `client` for constructors, `run` of a consumer, `driver` for the rest. */
export function translate(kind, settings) {
  const options = { kafka: {}, client: {}, run: {}, retry: {}, driver: {} }
  for (const [name, value] of Object.entries(settings)) {
    if (!Object.hasOwn(TABLES[kind], name)) throw new Unsupported(`setting ${name} of a ${kind}`)
    const [object, key] = TABLES[kind][name]
    options[object][key] = value
  }
  if (Object.keys(options.retry).length > 0) options.client.retry = options.retry
  addSecurity(options)
  addChoices(options)
  options.kafka.logCreator = () => ({ label, log: { message, ...rest } }) =>
    process.stderr.write(`${label} ${message} ${JSON.stringify(rest)}\n`)
  options.kafka.logLevel = kafkajs.logLevel.WARN
  return options
}

function addSecurity({ kafka, driver }) {
  const { securityProtocol = 'PLAINTEXT', mechanism, username, password, caFile } = driver
  if (securityProtocol.endsWith('SSL')) kafka.ssl = caFile ? { ca: [readFileSync(caFile, 'utf8')] } : true
  if (securityProtocol.startsWith('SASL')) {
    if (!MECHANISMS[mechanism]) throw new Unsupported(`sasl_mechanism ${mechanism}`)
    kafka.sasl = { mechanism: MECHANISMS[mechanism], username, password }
  }
}

function addChoices({ client, driver }) {
  if (driver.isolationLevel !== undefined) client.readUncommitted = driver.isolationLevel === 'read_uncommitted'
  if (driver.autoOffsetReset === 'none') throw new Unsupported('auto_offset_reset none')
  if (driver.compression !== undefined && !['none', 'gzip'].includes(driver.compression)) {
    throw new Unsupported(`compression ${driver.compression} without a package for it`)
  }
}
