package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumer is a consumer or a share consumer. The client is created when it is known what it consumes.
type consumer struct {
	opts   []kgo.Opt
	values *values
	share  bool
	client *kgo.Client
	topics []string

	mu       sync.Mutex
	events   []object
	stopPoll context.CancelFunc // Ends the poll that waits, when there is an event.
	assigned map[string][]int32
	acks     kgo.ShareAckResults
	polled   map[recordKey]*kgo.Record
}

type recordKey struct {
	topic     string
	partition int32
	offset    int64
}

func newConsumer(opts []kgo.Opt, v *values, share bool) (client, error) {
	c := &consumer{values: v, share: share, assigned: map[string][]int32{}, polled: map[recordKey]*kgo.Record{}}
	c.opts = opts
	if share {
		c.opts = append(c.opts, kgo.ShareAckCallback(c.onAcks))
	} else if v.groupID != "" {
		c.opts = append(c.opts, kgo.ConsumerGroup(v.groupID), kgo.OnPartitionsAssigned(c.onAssigned),
			kgo.OnPartitionsRevoked(c.onRevoked), kgo.OnPartitionsLost(c.onLost))
		if !v.autoCommit {
			c.opts = append(c.opts, kgo.DisableAutoCommit())
		}
	}
	if err := kgo.ValidateOpts(c.opts...); err != nil && v.groupID != "" {
		return nil, illegalState(err.Error())
	}
	return c, nil
}

func (c *consumer) close(ctx context.Context) (any, error) {
	var err error
	if c.client != nil {
		err = c.client.LeaveGroupContext(ctx)
		if closeErr := closing(ctx, c.client.Close); err == nil {
			err = closeErr
		}
	}
	return object{"events": c.takeEvents()}, err
}

func (c *consumer) call(ctx context.Context, method string, p *params) (any, error) {
	switch method {
	case "subscribe":
		return object{}, c.subscribe(p)
	case "assign":
		return object{}, c.assign(p)
	case "assignment":
		return object{"partitions": c.assignment()}, nil
	}
	if c.client == nil {
		return nil, illegalState("the consumer is neither subscribed nor assigned to anything")
	}
	switch method {
	case "poll":
		return c.poll(ctx, p)
	case "unsubscribe":
		c.client.PurgeTopicsFromConsuming(c.client.GetConsumeTopics()...)
		c.topics = nil
		return object{}, nil
	}
	if c.share {
		return c.callShare(ctx, method, p)
	}
	return c.callConsumer(ctx, method, p)
}

func (c *consumer) callConsumer(ctx context.Context, method string, p *params) (any, error) {
	switch method {
	case "commit":
		return object{}, c.commit(ctx, p)
	case "commit_async":
		c.client.CommitOffsets(ctx, c.client.UncommittedOffsets(), func(_ *kgo.Client, _ *commitRequest, response *commitResponse, err error) {
			c.addEvent(object{"type": "committed", "error": describeOrNull(commitError(response, err))})
		})
		return object{}, nil
	case "committed":
		return c.committed(ctx, p)
	case "position":
		return object{"offsets": positions(p.Partitions, c.client.UncommittedOffsets())}, nil
	case "seek":
		c.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{p.Topic: {*p.Partition: {Epoch: -1, Offset: p.Offset}}})
	case "pause":
		c.client.PauseFetchPartitions(byTopic(p.Partitions))
	case "resume":
		c.client.ResumeFetchPartitions(byTopic(p.Partitions))
	default:
		return nil, unsupported("method " + method + " of a consumer")
	}
	return object{}, nil
}

func (c *consumer) create(opts ...kgo.Opt) error {
	created, err := kgo.NewClient(append(slices.Clone(c.opts), opts...)...)
	if err != nil {
		return illegalState(err.Error())
	}
	c.client = created
	return nil
}

// subscribe creates the client; later it adds the new topics and removes those that are left out.
func (c *consumer) subscribe(p *params) error {
	if p.Pattern != nil {
		if c.share || c.client != nil {
			return unsupported("a pattern of a share consumer, or after the first subscription")
		}
		return c.create(kgo.ConsumeRegex(), kgo.ConsumeTopics("^(?:"+*p.Pattern+")$"))
	}
	topics, err := read[[]string](p.Topics)
	if err != nil {
		return illegalState(err.Error())
	}
	before := c.topics
	c.topics = topics
	if c.client == nil {
		return c.create(kgo.ConsumeTopics(topics...))
	}
	gone := slices.DeleteFunc(slices.Clone(before), func(topic string) bool { return slices.Contains(topics, topic) })
	if len(gone) > 0 {
		c.client.PurgeTopicsFromConsuming(gone...)
	}
	c.client.AddConsumeTopics(topics...)
	return nil
}

func (c *consumer) assign(p *params) error {
	if c.share || c.values.groupID != "" {
		return unsupported("assign with a group: the client consumes partitions or joins a group")
	}
	offsets := map[string]map[int32]kgo.Offset{}
	c.assigned = byTopic(p.Partitions)
	for _, at := range p.Partitions {
		offset, err := startOffset(at.Offset)
		if err != nil {
			return err
		}
		if offsets[at.Topic] == nil {
			offsets[at.Topic] = map[int32]kgo.Offset{}
		}
		offsets[at.Topic][at.Partition] = offset
	}
	if c.client == nil {
		return c.create(kgo.ConsumePartitions(offsets))
	}
	c.client.PurgeTopicsFromConsuming(c.client.GetConsumeTopics()...)
	c.client.AddConsumePartitions(offsets)
	return nil
}

func startOffset(raw json.RawMessage) (kgo.Offset, error) {
	switch string(raw) {
	case "", "null":
		return kgo.NewOffset(), nil // That of the reset policy.
	case `"earliest"`:
		return kgo.NewOffset().AtStart(), nil
	case `"latest"`:
		return kgo.NewOffset().AtEnd(), nil
	}
	offset, err := read[int64](raw)
	return kgo.NewOffset().At(offset), err
}

// poll waits for records or an event. A wakeup cancels its context.
func (c *consumer) poll(ctx context.Context, p *params) (any, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.WakeupAfterMs != nil {
		defer time.AfterFunc(time.Duration(*p.WakeupAfterMs)*time.Millisecond, cancel).Stop()
	}
	c.mu.Lock()
	c.acks = nil
	c.stopPoll = cancel
	if len(c.events) > 0 {
		cancel()
	}
	c.mu.Unlock()
	limit := c.values.maxPollRecords
	if p.MaxRecords != nil {
		limit = *p.MaxRecords
	}
	if limit == 0 {
		limit = -1 // Without a limit.
	}
	fetches := c.client.PollRecords(ctx, limit)
	c.mu.Lock()
	c.stopPoll = nil
	c.mu.Unlock()

	records := []any{}
	fetches.EachRecord(func(r *kgo.Record) {
		records = append(records, c.received(r))
	})
	var failed []error
	for _, fetch := range fetches.Errors() {
		if !errors.Is(fetch.Err, context.Canceled) && !errors.Is(fetch.Err, context.DeadlineExceeded) {
			failed = append(failed, fetch.Err)
		}
	}
	if len(failed) > 0 && len(records) == 0 {
		return nil, failed[0]
	}
	for _, err := range failed {
		c.addEvent(object{"type": "error", "error": describe(err)})
	}
	return object{"records": records, "events": c.takeEvents()}, nil
}

func (c *consumer) received(r *kgo.Record) object {
	headers := [][]any{}
	for _, header := range r.Headers {
		headers = append(headers, []any{header.Key, text(header.Value)})
	}
	received := object{
		"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "key": text(r.Key), "value": text(r.Value),
		"headers": headers, "timestamp": milliseconds(r.Timestamp),
	}
	if c.share {
		received["delivery_count"] = r.DeliveryCount()
		c.polled[recordKey{r.Topic, r.Partition, r.Offset}] = r
	}
	return received
}

// milliseconds of a time; nil if the record has none.
func milliseconds(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UnixMilli()
}

func text(data []byte) any {
	if data == nil {
		return nil
	}
	return string(data)
}

func (c *consumer) commit(ctx context.Context, p *params) error {
	if p.Offsets == nil {
		return c.client.CommitUncommittedOffsets(ctx)
	}
	offsets := map[string]map[int32]kgo.EpochOffset{}
	for _, at := range p.Offsets {
		offset, err := read[int64](at.Offset)
		if err != nil {
			return illegalState(err.Error())
		}
		if offsets[at.Topic] == nil {
			offsets[at.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.Topic][at.Partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var failed error
	c.client.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *commitRequest, response *commitResponse, err error) {
		failed = commitError(response, err)
	})
	return failed
}

func (c *consumer) committed(ctx context.Context, p *params) (any, error) {
	asked := byTopic(p.Partitions)
	topics := make([]string, 0, len(asked))
	for topic := range asked {
		topics = append(topics, topic)
	}
	// Not OffsetFetch of all partitions of the group: kadm asks for those of these topics.
	found, err := kadm.NewClient(c.client).FetchOffsetsForTopics(ctx, c.values.groupID, topics...)
	if err != nil {
		return nil, err
	}
	offsets := []any{}
	for _, at := range p.Partitions {
		var offset any
		if response, ok := found.Lookup(at.Topic, at.Partition); ok && response.At >= 0 {
			offset = response.At
		} else if ok && response.Err != nil {
			return nil, response.Err
		}
		offsets = append(offsets, object{"topic": at.Topic, "partition": at.Partition, "offset": offset})
	}
	return object{"offsets": offsets}, nil
}

func positions(partitions []place, known map[string]map[int32]kgo.EpochOffset) []any {
	offsets := []any{}
	for _, at := range partitions {
		var offset any
		if position, ok := known[at.Topic][at.Partition]; ok {
			offset = position.Offset
		}
		offsets = append(offsets, object{"topic": at.Topic, "partition": at.Partition, "offset": offset})
	}
	return offsets
}
