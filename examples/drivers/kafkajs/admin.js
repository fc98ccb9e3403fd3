// An admin client: topics, the cluster, offsets.
import kafkajs from 'kafkajs'

export class AdminClient {
  constructor({ kafka, client }) {
    this.admin = new kafkajs.Kafka(kafka).admin(client)
    this.methods = {
      create_topics: async ({ topics, timeout_ms }) => {
        const made = topics.map(({ name, partitions, replication_factor }) => ({
          topic: name, numPartitions: partitions, replicationFactor: replication_factor
        }))
        // Without an error of its own the client returns false for topics that exist.
        if (!(await this.admin.createTopics({ topics: made, timeout: timeout_ms }))) throw existing()
        return {}
      },
      delete_topics: async ({ topics, timeout_ms }) => {
        await this.admin.deleteTopics({ topics, timeout: timeout_ms })
        return {}
      },
      create_partitions: async ({ topics, timeout_ms }) => {
        const topicPartitions = topics.map(({ name, count }) => ({ topic: name, count }))
        await this.admin.createPartitions({ topicPartitions, timeout: timeout_ms })
        return {}
      },
      list_topics: async () => ({ topics: (await this.admin.listTopics()).sort() }),
      describe_cluster: async () => {
        const { brokers, controller, clusterId } = await this.admin.describeCluster()
        return { cluster_id: clusterId, controller, nodes: brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port })) }
      },
      list_offsets: async ({ partitions }) => ({ offsets: await Promise.all(partitions.map(each => this.listOffset(each))) })
    }
  }

  connect() {
    return this.connected ? Promise.resolve() : this.admin.connect().then(() => { this.connected = true })
  }

  async close() {
    await this.admin.disconnect()
    return {}
  }

  async listOffset({ topic, partition, spec }) {
    const ends = { earliest: 'low', latest: 'high' }
    const found = ends[spec]
      ? (await this.admin.fetchTopicOffsets(topic)).map(each => ({ partition: each.partition, offset: each[ends[spec]] }))
      : await this.admin.fetchTopicOffsetsByTimestamp(topic, spec)
    const at = found.find(each => each.partition === partition)
    return { topic, partition, offset: at === undefined || Number(at.offset) < 0 ? null : Number(at.offset) }
  }
}

function existing() {
  return new kafkajs.KafkaJSProtocolError({
    type: 'TOPIC_ALREADY_EXISTS', code: 36, retriable: false, message: 'createTopics has returned false'
  })
}
