package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var ackStatuses = map[string]kgo.AckStatus{
	"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject, "renew": kgo.AckRenew,
}

func (c *consumer) callShare(ctx context.Context, method string, p *params) (any, error) {
	switch method {
	case "acknowledge":
		for _, acknowledged := range p.Records {
			key := recordKey{acknowledged.Topic, *acknowledged.Partition, acknowledged.Offset}
			record := c.polled[key]
			if record == nil {
				return nil, illegalState(fmt.Sprintf("%v has not been polled", key))
			}
			c.client.MarkAcks(ackStatuses[acknowledged.Type], record)
		}
		return object{}, nil
	case "commit":
		return c.flush(ctx)
	case "commit_async":
		c.mark()
		go c.flushBehind(p.timeout())
		return object{}, nil
	}
	return nil, unsupported("method " + method + " of a share consumer")
}

// flush sends the acknowledgements and waits. Its results are those since the last poll, because the client sends
// acknowledgements by itself as soon as it can.
func (c *consumer) flush(ctx context.Context) (any, error) {
	c.mark()
	if err := c.client.FlushAcks(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	type topicPartition struct {
		topic     string
		partition int32
	}
	errs := map[topicPartition]error{}
	for _, result := range c.acks {
		at := topicPartition{result.Topic, result.Partition}
		if errs[at] == nil {
			errs[at] = result.Err
		}
	}
	c.acks = nil
	partitions := []any{}
	for at, err := range errs {
		partitions = append(partitions, object{"topic": at.topic, "partition": at.partition, "error": describeOrNull(err)})
	}
	return object{"partitions": partitions}, nil
}

// mark accepts, in implicit mode, the records of the last poll.
func (c *consumer) mark() {
	if !c.values.explicit {
		c.client.MarkAcks(kgo.AckAccept)
	}
}

// flushBehind sends the acknowledgements while the driver serves other requests.
func (c *consumer) flushBehind(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.client.FlushAcks(ctx); err != nil {
		c.addEvent(object{"type": "error", "error": describe(err)})
	}
}

// onAcks receives the results of acknowledgements; the client does not say of which offsets.
func (c *consumer) onAcks(_ *kgo.Client, results kgo.ShareAckResults) {
	c.mu.Lock()
	c.acks = append(c.acks, results...)
	c.mu.Unlock()
	for _, result := range results {
		c.addEvent(object{
			"type": "acknowledged", "topic": result.Topic, "partition": result.Partition, "offsets": []int64{},
			"error": describeOrNull(result.Err),
		})
	}
}
