package main

import (
	"time"

	"github.com/IBM/sarama"
)

// producer connects with its first call, because the client does so when it is created.
type producer struct {
	config *sarama.Config
	seeds  []string
	client sarama.AsyncProducer
}

func (p *producer) connect() error {
	if p.client != nil {
		return nil
	}
	p.config.Producer.Partitioner = newPartitioner
	created, err := sarama.NewAsyncProducer(p.seeds, p.config)
	if err != nil {
		return err
	}
	p.client = created
	go func() {
		for sent := range created.Successes() {
			sent.Metadata.(*pending).done <- nil
		}
	}()
	go func() {
		for failed := range created.Errors() {
			failed.Msg.Metadata.(*pending).done <- failed.Err
		}
	}()
	return nil
}

func (p *producer) close() (any, error) {
	if p.client != nil {
		p.client.AsyncClose() // Close would read the channels that the driver reads.
	}
	return object{}, nil
}

func (p *producer) call(method string, params *params) (any, error) {
	if err := p.connect(); err != nil {
		return nil, err
	}
	switch method {
	case "send":
		return object{"deliveries": p.send(params)}, nil
	case "init_transactions":
		return object{}, nil // The client has asked for the producer id when it was created, in connect.
	case "begin":
		return object{}, p.client.BeginTxn()
	case "commit_transaction":
		return object{}, p.client.CommitTxn()
	case "abort_transaction":
		return object{}, p.client.AbortTxn()
	case "send_offsets":
		return object{}, p.sendOffsets(params)
	}
	return nil, unsupported("method " + method + " of a producer")
}

func (p *producer) sendOffsets(params *params) error {
	consumer, ok := clients[params.Consumer].(*consumer)
	if !ok || consumer.currentSession() == nil {
		return illegalState(params.Consumer + " is not a member of a group")
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{}
	for _, at := range params.Offsets {
		offset, err := at.number()
		if err != nil {
			return err
		}
		offsets[at.Topic] = append(offsets[at.Topic], &sarama.PartitionOffsetMetadata{Partition: at.Partition, Offset: offset})
	}
	var instanceID *string
	if id := consumer.config.Consumer.Group.InstanceId; id != "" {
		instanceID = &id
	}
	member := sarama.NewConsumerGroupMetadataFromSession(consumer.currentSession(), consumer.groupID, instanceID)
	return p.client.AddOffsetsToTxnWithGroupMetadata(offsets, member)
}

// pending is a record that has no result yet. partition: the one that it must go to, or nil.
type pending struct {
	partition *int32
	done      chan error
}

// send gives all records to the client, then waits for each.
func (p *producer) send(params *params) []any {
	limit := time.After(params.timeout())
	messages := make([]*sarama.ProducerMessage, len(params.Records))
	for i, sent := range params.Records {
		messages[i] = message(params, sent)
		p.client.Input() <- messages[i]
	}
	deliveries := make([]any, len(messages))
	isLate := false
	for i, sent := range messages {
		err := error(&localError{"LOCAL_TIMEOUT", "the record has not been delivered in time"})
		if isLate {
			limit = time.After(0)
		}
		select {
		case err = <-sent.Metadata.(*pending).done:
		case <-limit:
			isLate = true
		}
		if err != nil {
			deliveries[i] = object{"error": describe(err)}
			continue
		}
		offset := sent.Offset
		if p.config.Producer.RequiredAcks == sarama.NoResponse {
			offset = -1
		}
		deliveries[i] = object{"topic": sent.Topic, "partition": sent.Partition, "offset": offset}
	}
	return deliveries
}

func message(params *params, sent record) *sarama.ProducerMessage {
	made := &sarama.ProducerMessage{Topic: params.Topic, Key: encoder(sent.Key), Value: encoder(sent.Value)}
	target := &pending{partition: params.Partition, done: make(chan error, 1)}
	if sent.Partition != nil {
		target.partition = sent.Partition
	}
	made.Metadata = target
	if sent.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*sent.Timestamp)
	}
	for _, header := range sent.Headers {
		made.Headers = append(made.Headers, sarama.RecordHeader{Key: []byte(*header[0]), Value: bytes(header[1])})
	}
	return made
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

func encoder(text *string) sarama.Encoder {
	if text == nil {
		return nil
	}
	return sarama.StringEncoder(*text)
}

// partitioner lets a record choose its partition; the others go where the client's default puts them.
type partitioner struct {
	sarama.DynamicConsistencyPartitioner
}

func newPartitioner(topic string) sarama.Partitioner {
	return partitioner{sarama.NewHashPartitioner(topic).(sarama.DynamicConsistencyPartitioner)}
}

func (p partitioner) MessageRequiresConsistency(m *sarama.ProducerMessage) bool {
	return m.Metadata.(*pending).partition != nil || p.DynamicConsistencyPartitioner.MessageRequiresConsistency(m)
}

func (p partitioner) Partition(m *sarama.ProducerMessage, count int32) (int32, error) {
	if partition := m.Metadata.(*pending).partition; partition != nil {
		return *partition, nil
	}
	return p.DynamicConsistencyPartitioner.Partition(m, count)
}
