// A member of a classic group. kafkajs pushes batches; the driver keeps them until a poll, as an application's queue would.
import kafkajs from 'kafkajs'

import { IllegalState, Unsupported, describe } from './errors.js'

const EVERY_MS = 100

export class ConsumerClient {
  constructor({ kafka, client, run, driver }) {
    this.groupId = client.groupId
    this.fromBeginning = driver.autoOffsetReset === undefined ? undefined : driver.autoOffsetReset === 'earliest'
    this.run = run
    this.client = new kafkajs.Kafka(kafka)
    if (this.groupId) this.consumer = this.client.consumer(client)
    this.queue = [] // Batches that wait for a poll.
    this.taken = [] // Those of the last poll: they are processed when the next one begins.
    this.positions = new Map()
    this.events = []
    this.assigned = []
    if (this.consumer) this.listen()
    this.methods = {
      subscribe: params => this.subscribe(params),
      unsubscribe: async () => {
        this.release()
        await this.consumer.stop()
        this.assigned = []
        return {}
      },
      poll: params => this.poll(params),
      commit: params => this.commit(params),
      committed: params => this.committed(params),
      seek: async ({ topic, partition, offset }) => this.seek(topic, partition, offset),
      pause: async ({ partitions }) => this.each('pause', partitions),
      resume: async ({ partitions }) => this.each('resume', partitions),
      assignment: async () => ({ partitions: this.assigned })
    }
  }

  listen() {
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.assigned = Object.entries(payload.memberAssignment)
        .flatMap(([topic, partitions]) => partitions.map(partition => ({ topic, partition })))
      this.addEvent({ type: 'assigned', partitions: this.assigned })
    })
    this.consumer.on(this.consumer.events.CRASH, ({ payload }) => {
      this.addEvent({ type: 'error', error: describe(payload.error) })
    })
  }

  connect() {
    if (!this.consumer) return Promise.reject(new Unsupported('a consumer without a group'))
    return this.connected ? Promise.resolve() : this.consumer.connect().then(() => { this.connected = true })
  }

  async close() {
    this.release()
    await this.consumer?.disconnect()
    await this.admin?.disconnect()
    return { events: this.events.splice(0) }
  }

  addEvent(event) {
    this.events.push(event)
    this.wake?.()
  }

  async subscribe({ topics, pattern }) {
    const wanted = pattern == null ? topics : [new RegExp(`^(?:${pattern})$`)]
    await this.consumer.subscribe({ topics: wanted, ...(this.fromBeginning !== undefined && { fromBeginning: this.fromBeginning }) })
    const eachBatch = payload => this.offer(payload)
    await this.consumer.run({ ...this.run, eachBatchAutoResolve: false, eachBatch })
    return {}
  }

  /** Keeps a batch until the poll after the one that has taken it, with heartbeats, as a slow application must. */
  async offer({ batch, heartbeat, isRunning, isStale, resolveOffset }) {
    const item = { batch, isDone: false }
    this.queue.push(item)
    this.wake?.()
    while (!item.isDone) {
      await new Promise(resolve => {
        item.release = resolve
        setTimeout(resolve, EVERY_MS)
      })
      if (!isRunning() || isStale()) break
      if (!item.isDone) await heartbeat()
    }
    if (item.isDone) resolveOffset(batch.lastOffset())
    else this.queue = this.queue.filter(each => each !== item)
  }

  release() {
    for (const item of this.taken.splice(0)) {
      item.isDone = true
      item.release?.()
    }
  }

  async poll({ timeout_ms, max_records, wakeup_after_ms }) {
    if (max_records != null || wakeup_after_ms != null) throw new Unsupported('max_records and wakeup of a poll')
    this.release()
    if (this.queue.length === 0 && this.events.length === 0) {
      await new Promise(resolve => {
        const timer = setTimeout(resolve, timeout_ms)
        this.wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
      this.wake = undefined
    }
    this.taken = this.queue.splice(0)
    return { records: this.taken.flatMap(({ batch }) => this.records(batch)), events: this.events.splice(0) }
  }

  records({ topic, partition, messages }) {
    return messages.map(message => {
      const offset = Number(message.offset)
      this.positions.set(`${topic} ${partition}`, { topic, partition, offset: `${offset + 1}` })
      const headers = Object.entries(message.headers ?? {}).flatMap(([name, values]) =>
        [values].flat().map(value => [name, value?.toString() ?? null]))
      const text = data => data?.toString() ?? null
      return {
        topic, partition, offset, key: text(message.key), value: text(message.value), headers, timestamp: Number(message.timestamp)
      }
    })
  }

  async commit({ offsets }) {
    const given = offsets?.map(each => ({ ...each, offset: `${each.offset}` })) ?? [...this.positions.values()]
    await this.consumer.commitOffsets(given)
    return {}
  }

  /** The consumer has no such method: the client has it in its admin client. */
  async committed({ partitions }) {
    if (!this.admin) {
      this.admin = this.client.admin()
      await this.admin.connect()
    }
    const topics = [...new Set(partitions.map(each => each.topic))]
    const found = await this.admin.fetchOffsets({ groupId: this.groupId, topics })
    return {
      offsets: partitions.map(({ topic, partition }) => {
        const at = found.find(each => each.topic === topic)?.partitions.find(each => each.partition === partition)
        return { topic, partition, offset: at === undefined || Number(at.offset) < 0 ? null : Number(at.offset) }
      })
    }
  }

  seek(topic, partition, offset) {
    this.consumer.seek({ topic, partition, offset: `${offset}` })
    this.queue = this.queue.filter(({ batch }) => batch.topic !== topic || batch.partition !== partition)
    return {}
  }

  each(method, partitions) {
    if (this.assigned.length === 0) throw new IllegalState('nothing is assigned')
    this.consumer[method](partitions.map(({ topic, partition }) => ({ topic, partitions: [partition] })))
    return {}
  }
}
