package main

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// consumer is a member of a group (Consume runs in a goroutine), or reads partitions that were assigned.
type consumer struct {
	config  *sarama.Config
	seeds   []string
	groupID string
	// hasResetPolicy: auto_offset_reset is set. In a group the client has it, else it is only the offset to start from.
	hasResetPolicy bool

	group    sarama.ConsumerGroup
	stop     context.CancelFunc // Ends Consume.
	stopped  chan struct{}
	consumer sarama.Consumer
	readers  []sarama.PartitionConsumer

	received chan *sarama.ConsumerMessage // Not buffered: a record is with the client until a poll takes it.
	wake     chan struct{}
	polled   []*sarama.ConsumerMessage // Of the last poll: they are marked when the next one begins.

	mu       sync.Mutex
	events   []object
	assigned map[string][]int32
	session  sarama.ConsumerGroupSession
}

func newConsumer(config *sarama.Config, v *values) *consumer {
	return &consumer{
		config: config, seeds: v.seeds, groupID: v.groupID, hasResetPolicy: v.resets,
		received: make(chan *sarama.ConsumerMessage), wake: make(chan struct{}, 1),
	}
}

func (c *consumer) close() (any, error) {
	c.mark()
	err := c.leave()
	for _, reader := range c.readers {
		reader.AsyncClose()
	}
	if c.consumer != nil {
		err = c.consumer.Close()
	}
	return object{"events": c.takeEvents()}, err
}

// leave ends the session and the membership.
func (c *consumer) leave() error {
	if c.group == nil {
		return nil
	}
	c.stop()
	<-c.stopped
	err := c.group.Close()
	c.group = nil
	return err
}

func (c *consumer) call(method string, p *params) (any, error) {
	switch method {
	case "subscribe":
		return object{}, c.subscribe(p)
	case "unsubscribe":
		c.mark()
		return object{}, c.leave()
	case "assign":
		return object{}, c.assign(p)
	case "poll":
		return c.poll(p)
	case "assignment":
		c.mu.Lock()
		defer c.mu.Unlock()
		return object{"partitions": places(c.assigned)}, nil
	case "commit":
		return object{}, c.commit(p)
	case "committed":
		return c.committed(p)
	case "pause", "resume":
		return object{}, c.pause(method == "pause", p)
	}
	return nil, unsupported("method " + method + " of a consumer")
}

func (c *consumer) subscribe(p *params) error {
	if p.Pattern != nil {
		return unsupported("a pattern")
	}
	var topics []string
	if err := json.Unmarshal(p.Topics, &topics); err != nil {
		return illegalState(err.Error())
	}
	if err := c.leave(); err != nil {
		return err
	}
	group, err := sarama.NewConsumerGroup(c.seeds, c.groupID, c.config)
	if err != nil {
		return err
	}
	c.group = group
	ctx, cancel := context.WithCancel(context.Background())
	c.stop, c.stopped = cancel, make(chan struct{})
	go c.consume(ctx, group, topics)
	go func() {
		for err := range group.Errors() {
			c.addEvent(object{"type": "error", "error": describe(err)})
		}
	}()
	return nil
}

// consume starts a session after the other, as the client asks its applications to.
func (c *consumer) consume(ctx context.Context, group sarama.ConsumerGroup, topics []string) {
	defer close(c.stopped)
	for ctx.Err() == nil {
		if err := group.Consume(ctx, topics, c); err != nil {
			c.addEvent(object{"type": "error", "error": describe(err)})
			select {
			case <-ctx.Done():
			case <-time.After(c.config.Consumer.Group.Rebalance.Retry.Backoff):
			}
		}
	}
}

// Setup is called at the start of a session; with a cooperative strategy only at the first.
func (c *consumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	c.session = session
	c.assigned = map[string][]int32{}
	for topic, partitions := range session.Claims() {
		c.assigned[topic] = slices.Clone(partitions)
	}
	c.mu.Unlock()
	c.addEvent(object{"type": "assigned", "partitions": places(session.Claims())})
	return nil
}

// Cleanup is called at the end of a session, before the last commit.
func (c *consumer) Cleanup(session sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	c.session = nil
	c.assigned = nil
	c.mu.Unlock()
	if claims := session.Claims(); len(claims) > 0 {
		c.addEvent(object{"type": "revoked", "partitions": places(claims)})
	}
	return nil
}

// ConsumeClaim gives the records of one partition to polls. With a cooperative strategy it also comes and goes in a session.
func (c *consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c.change("assigned", claim)
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				if session.Context().Err() == nil {
					c.change("revoked", claim)
				}
				return nil
			}
			select {
			case c.received <- message:
			case <-session.Context().Done():
				return nil
			}
		case <-session.Context().Done():
			return nil
		}
	}
}

// change adds or removes one partition within a session.
func (c *consumer) change(event string, claim sarama.ConsumerGroupClaim) {
	topic, partition := claim.Topic(), claim.Partition()
	c.mu.Lock()
	isNews := slices.Contains(c.assigned[topic], partition) == (event == "revoked")
	if isNews && event == "revoked" {
		c.assigned[topic] = slices.DeleteFunc(c.assigned[topic], func(number int32) bool { return number == partition })
	} else if isNews {
		c.assigned[topic] = append(c.assigned[topic], partition)
	}
	c.mu.Unlock()
	if isNews {
		c.addEvent(object{"type": event, "partitions": places(map[string][]int32{topic: {partition}})})
	}
}

func (c *consumer) assign(p *params) error {
	if c.groupID != "" {
		return unsupported("assign with a group: the client reads partitions or joins a group")
	}
	if len(c.readers) > 0 {
		return unsupported("another assign: the client has a reader for each partition, and the driver does not end them")
	}
	if c.consumer == nil {
		created, err := sarama.NewConsumer(c.seeds, c.config)
		if err != nil {
			return err
		}
		c.consumer = created
	}
	for _, at := range p.Partitions {
		offset := c.config.Consumer.Offsets.Initial
		switch string(at.Offset) {
		case "", "null":
		case `"earliest"`:
			offset = sarama.OffsetOldest
		case `"latest"`:
			offset = sarama.OffsetNewest
		default:
			number, err := at.number()
			if err != nil {
				return err
			}
			if c.hasResetPolicy {
				return unsupported("auto_offset_reset with assigned offsets: the client has no reset policy for them")
			}
			offset = number
		}
		reader, err := c.consumer.ConsumePartition(at.Topic, at.Partition, offset)
		if err != nil {
			return err
		}
		c.readers = append(c.readers, reader)
		go c.read(reader)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.assigned = byTopic(p.Partitions)
	return nil
}

func (c *consumer) read(reader sarama.PartitionConsumer) {
	go func() {
		for err := range reader.Errors() {
			c.addEvent(object{"type": "error", "error": describe(err)})
		}
	}()
	for message := range reader.Messages() {
		c.received <- message
	}
}

// poll takes the records that wait, after the first one without waiting for more.
func (c *consumer) poll(p *params) (any, error) {
	if p.MaxRecords != nil || p.WakeupAfterMs != nil {
		return nil, unsupported("max_records and wakeup of a poll")
	}
	c.mark()
	limit := time.After(p.timeout())
	records := []any{}
	c.mu.Lock()
	hasEvents := len(c.events) > 0
	c.mu.Unlock()
	if !hasEvents {
		select {
		case message := <-c.received:
			records = append(records, c.take(message))
		case <-c.wake:
		case <-limit:
		}
	}
	for more := true; more; {
		select {
		case message := <-c.received:
			records = append(records, c.take(message))
		case <-time.After(time.Millisecond): // The next record is with a goroutine of the client.
			more = false
		}
	}
	return object{"records": records, "events": c.takeEvents()}, nil
}

func (c *consumer) take(message *sarama.ConsumerMessage) object {
	c.polled = append(c.polled, message)
	headers := [][]any{}
	for _, header := range message.Headers {
		headers = append(headers, []any{string(header.Key), text(header.Value)})
	}
	return object{
		"topic": message.Topic, "partition": message.Partition, "offset": message.Offset, "key": text(message.Key),
		"value": text(message.Value), "headers": headers, "timestamp": milliseconds(message.Timestamp),
	}
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

// mark says that the records of the last poll are processed.
func (c *consumer) mark() {
	if session := c.currentSession(); session != nil {
		for _, message := range c.polled {
			session.MarkMessage(message, "")
		}
	}
	c.polled = nil
}

func (c *consumer) currentSession() sarama.ConsumerGroupSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// commit commits what is marked. The client does not return errors of it: they are events of type error.
func (c *consumer) commit(p *params) error {
	session := c.currentSession()
	if session == nil {
		return illegalState("the consumer is not a member of a group")
	}
	if p.Offsets == nil {
		c.mark()
	}
	for _, at := range p.Offsets {
		offset, err := at.number()
		if err != nil {
			return err
		}
		session.MarkOffset(at.Topic, at.Partition, offset, "")
		session.ResetOffset(at.Topic, at.Partition, offset, "") // For a lower one.
	}
	session.Commit()
	return nil
}

// committed asks with the client's ClusterAdmin: a consumer has no such method.
func (c *consumer) committed(p *params) (any, error) {
	client, err := sarama.NewClusterAdmin(c.seeds, c.config)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found, err := client.ListConsumerGroupOffsets(c.groupID, byTopic(p.Partitions))
	if err != nil {
		return nil, err
	}
	if found.Err != sarama.ErrNoError {
		return nil, found.Err
	}
	offsets := []any{}
	for _, at := range p.Partitions {
		var offset any
		if block := found.GetBlock(at.Topic, at.Partition); block != nil && block.Err != sarama.ErrNoError {
			return nil, block.Err
		} else if block != nil && block.Offset >= 0 {
			offset = block.Offset
		}
		offsets = append(offsets, object{"topic": at.Topic, "partition": at.Partition, "offset": offset})
	}
	return object{"offsets": offsets}, nil
}

func (c *consumer) pause(isPause bool, p *params) error {
	partitions := byTopic(p.Partitions)
	switch {
	case c.group != nil && isPause:
		c.group.Pause(partitions)
	case c.group != nil:
		c.group.Resume(partitions)
	case c.consumer != nil && isPause:
		c.consumer.Pause(partitions)
	case c.consumer != nil:
		c.consumer.Resume(partitions)
	default:
		return illegalState("nothing is consumed")
	}
	return nil
}

func (c *consumer) addEvent(event object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *consumer) takeEvents() []object {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := append([]object{}, c.events...)
	c.events = nil
	select {
	case <-c.wake:
	default:
	}
	return taken
}

func (p *place) number() (int64, error) {
	var offset int64
	if err := json.Unmarshal(p.Offset, &offset); err != nil {
		return 0, illegalState("offset: " + err.Error())
	}
	return offset, nil
}

func byTopic(partitions []place) map[string][]int32 {
	found := map[string][]int32{}
	for _, at := range partitions {
		found[at.Topic] = append(found[at.Topic], at.Partition)
	}
	return found
}

func places(partitions map[string][]int32) []any {
	found := []any{}
	for topic, numbers := range partitions {
		for _, number := range numbers {
			found = append(found, object{"topic": topic, "partition": number})
		}
	}
	return found
}
