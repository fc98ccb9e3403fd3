// A producer, transactional or not.
import kafkajs from 'kafkajs'

import { IllegalState, describe, withinTime } from './errors.js'

// The client has an object of headers: several values of one name are an array.
function headersOf({ headers = [] }) {
  const byName = {}
  for (const [name, value] of headers) (byName[name] ??= []).push(value)
  return byName
}

export class ProducerClient {
  constructor({ kafka, client, driver }) {
    this.driver = driver
    // The partitions that the client's own partitioner has chosen: `send` returns one offset for each partition.
    this.chosen = new Map()
    const createPartitioner = () => {
      const partitioner = kafkajs.Partitioners.DefaultPartitioner()
      return args => {
        const partition = partitioner(args)
        this.chosen.set(args.message, partition)
        return partition
      }
    }
    this.producer = new kafkajs.Kafka(kafka).producer({ ...client, createPartitioner })
    this.methods = {
      send: params => this.send(params),
      init_transactions: async () => ({}), // The client asks for the producer id in its first `transaction`.
      begin: async () => {
        this.transaction = await this.producer.transaction()
        return {}
      },
      commit_transaction: () => this.end('commit'),
      abort_transaction: () => this.end('abort'),
      send_offsets: (params, clients) => this.sendOffsets(params, clients)
    }
  }

  connect() {
    return this.connected ? Promise.resolve() : this.producer.connect().then(() => { this.connected = true })
  }

  async close() {
    await this.producer.disconnect()
    return {}
  }

  running() {
    if (!this.transaction) throw new IllegalState('no transaction was begun')
    return this.transaction
  }

  async end(method) {
    await this.running()[method]()
    this.transaction = undefined
    return {}
  }

  async sendOffsets({ offsets, consumer }, clients) {
    const topics = offsets.map(({ topic, partition, offset }) => ({ topic, partitions: [{ partition, offset: `${offset}` }] }))
    await this.running().sendOffsets({ consumerGroupId: clients.get(consumer).groupId, topics })
    return {}
  }

  /** One `send` of the client with all records; it fails or succeeds as a whole. */
  async send({ topic, partition, records, timeout_ms }) {
    const { acks, compression } = this.driver
    const messages = records.map(record => ({
      key: record.key ?? null,
      value: record.value,
      ...((record.partition ?? partition) !== undefined && { partition: record.partition ?? partition }),
      ...(record.timestamp !== undefined && { timestamp: `${record.timestamp}` }),
      headers: headersOf(record)
    }))
    const sent = {
      topic,
      messages,
      ...(acks !== undefined && { acks: acks === 'all' ? -1 : acks }),
      ...(compression === 'gzip' && { compression: kafkajs.CompressionTypes.GZIP })
    }
    try {
      const results = await withinTime((this.transaction ?? this.producer).send(sent), timeout_ms)
      return { deliveries: this.deliveries(topic, messages, results) }
    } catch (error) {
      return { deliveries: messages.map(() => ({ error: describe(error) })) }
    } finally {
      messages.forEach(message => this.chosen.delete(message))
    }
  }

  deliveries(topic, messages, results) {
    const counts = new Map()
    return messages.map(message => {
      const partition = this.chosen.get(message)
      const index = counts.get(partition) ?? 0
      counts.set(partition, index + 1)
      const result = results.find(each => each.topicName === topic && each.partition === partition)
      if (this.driver.acks === 0) return { topic, partition: partition ?? -1, offset: -1 } // There is no answer.
      if (!result) return { error: describe(new Error(`send has returned no result for partition ${partition}`)) }
      return { topic, partition, offset: Number(result.baseOffset) + index }
    })
  }
}
