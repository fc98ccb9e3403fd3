// A driver of `mockbroker certify` for kafkajs: requests of the driver protocol on stdin, answers on stdout.
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'

import { AdminClient } from './admin.js'
import { ConsumerClient } from './consumer.js'
import { IllegalState, Unsupported, describe, withinTime } from './errors.js'
import { ProducerClient } from './producer.js'
import { settingNames, translate } from './settings.js'

const PROTOCOL = 1
const CAPABILITIES = [
  'producer', 'producer.idempotence', 'producer.transactions',
  'consumer.classic', 'consumer.pattern', 'consumer.seek', 'consumer.pause', 'consumer.offsets',
  'admin.topics', 'admin.cluster', 'admin.offsets',
  'sasl.plain', 'sasl.scram', 'tls', 'compression.gzip'
]
const KINDS = { producer: ProducerClient, consumer: ConsumerClient, admin: AdminClient }

const clients = new Map()

function hello({ protocol }) {
  if (protocol !== PROTOCOL) throw new Unsupported(`version ${protocol} of the protocol; this driver speaks version ${PROTOCOL}`)
  const { version } = createRequire(import.meta.url)('kafkajs/package.json')
  return {
    protocol: PROTOCOL, name: 'kafkajs', version, language: 'JavaScript', capabilities: CAPABILITIES, settings: settingNames()
  }
}

function open({ client, kind, settings }) {
  if (clients.has(client)) throw new IllegalState(`a client ${client} is open`)
  if (!KINDS[kind]) throw new Unsupported(`a client of kind ${kind}`)
  clients.set(client, new KINDS[kind](translate(kind, settings)))
  return {}
}

async function call(method, params) {
  if (method === 'hello') return hello(params)
  if (method === 'open') return open(params)
  if (params.client === undefined) throw new Unsupported(`method ${method}`)
  const client = clients.get(params.client)
  if (!client) throw new IllegalState(`no client ${params.client} is open`)
  params.timeout_ms ??= 10_000
  if (method === 'close') {
    clients.delete(params.client)
    return withinTime(client.close(), params.timeout_ms)
  }
  if (!client.methods[method]) throw new Unsupported(`method ${method} of this kind of client`)
  const work = client.connect().then(() => client.methods[method](params, clients))
  return withinTime(work, params.timeout_ms + 500) // A poll ends by itself.
}

process.on('unhandledRejection', error => console.error('unhandled rejection', error))
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  let answer
  try {
    answer = { id, result: await call(method, params) }
  } catch (error) {
    answer = { id, error: describe(error) }
  }
  process.stdout.write(JSON.stringify(answer) + '\n')
}
process.exit(0) // The clients are left as a crash leaves them.
