package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type producer struct{ client *kgo.Client }

func newProducer(opts []kgo.Opt) (client, error) {
	created, err := kgo.NewClient(append(opts, kgo.RecordPartitioner(partitioner{defaultPartitioner}))...)
	if err != nil {
		return nil, illegalState(err.Error())
	}
	return &producer{created}, nil
}

func (p *producer) close(ctx context.Context) (any, error) {
	return object{}, closing(ctx, p.client.Close)
}

func (p *producer) call(ctx context.Context, method string, params *params) (any, error) {
	var err error
	switch method {
	case "send":
		return object{"deliveries": p.send(ctx, params)}, nil
	case "init_transactions":
		_, _, err = p.client.ProducerID(ctx)
	case "begin":
		err = p.client.BeginTransaction()
	case "commit_transaction":
		if err = p.client.Flush(ctx); err == nil {
			err = p.client.EndTransaction(ctx, kgo.TryCommit)
		}
	case "abort_transaction":
		if err = p.client.AbortBufferedRecords(ctx); err == nil {
			err = p.client.EndTransaction(ctx, kgo.TryAbort)
		}
	case "send_offsets":
		return nil, unsupported("send_offsets: the client commits offsets in a GroupTransactSession of its own consumer only")
	default:
		return nil, unsupported("method " + method + " of a producer")
	}
	return object{}, err
}

// send gives all records to the client, then waits for each.
func (p *producer) send(ctx context.Context, params *params) []any {
	type delivery struct {
		record *kgo.Record
		err    error
	}
	promises := make([]chan delivery, len(params.Records))
	for i, sent := range params.Records {
		promise := make(chan delivery, 1)
		promises[i] = promise
		p.client.Produce(ctx, kafkaRecord(params, sent), func(record *kgo.Record, err error) {
			promise <- delivery{record, err}
		})
	}
	deliveries := make([]any, len(promises))
	for i, promise := range promises {
		var done delivery
		select {
		case done = <-promise:
		case <-ctx.Done(): // A record that is being sent is not cancelled, to keep its sequence number.
			select {
			case done = <-promise:
			case <-time.After(time.Second):
				done.err = ctx.Err()
			}
		}
		if done.err != nil {
			deliveries[i] = object{"error": describe(done.err)}
			continue
		}
		deliveries[i] = object{
			"topic": done.record.Topic, "partition": done.record.Partition, "offset": done.record.Offset,
			"timestamp": done.record.Timestamp.UnixMilli(),
		}
	}
	return deliveries
}

func kafkaRecord(params *params, sent record) *kgo.Record {
	made := &kgo.Record{Topic: params.Topic, Key: bytes(sent.Key), Value: bytes(sent.Value), Partition: anyPartition}
	switch {
	case sent.Partition != nil:
		made.Partition = *sent.Partition
	case params.Partition != nil:
		made.Partition = *params.Partition
	}
	if sent.Timestamp != nil {
		made.Timestamp = time.UnixMilli(*sent.Timestamp)
	}
	for _, header := range sent.Headers {
		made.Headers = append(made.Headers, kgo.RecordHeader{Key: *header[0], Value: bytes(header[1])})
	}
	return made
}

func bytes(text *string) []byte {
	if text == nil {
		return nil
	}
	return []byte(*text)
}

const anyPartition = -1

// defaultPartitioner is the one that the client has without RecordPartitioner.
var defaultPartitioner = kgo.UniformBytesPartitioner(64<<10, true, true, nil)

// partitioner lets a record choose its partition; the others go where the client's default puts them.
type partitioner struct{ kgo.Partitioner }

type topicPartitioner struct{ kgo.TopicBackupPartitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic).(kgo.TopicBackupPartitioner)}
}

func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition != anyPartition || t.TopicBackupPartitioner.RequiresConsistency(r)
}

func (t topicPartitioner) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	if r.Partition != anyPartition {
		return int(r.Partition)
	}
	return t.TopicBackupPartitioner.PartitionByBackup(r, n, backup)
}
