package main

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type (
	commitRequest  = kmsg.OffsetCommitRequest
	commitResponse = kmsg.OffsetCommitResponse
)

// commitError is the first error of a commit of offsets.
func commitError(response *commitResponse, err error) error {
	if err != nil || response == nil {
		return err
	}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *consumer) onAssigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.mu.Lock()
	for topic, numbers := range partitions {
		c.assigned[topic] = append(c.assigned[topic], numbers...)
	}
	c.mu.Unlock()
	c.addEvent(object{"type": "assigned", "partitions": places(partitions)})
}

// onRevoked replaces the client's own function, which commits when offsets are committed automatically.
func (c *consumer) onRevoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	if c.values.autoCommit {
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			c.addEvent(object{"type": "committed", "error": describe(err)})
		}
	}
	c.remove("revoked", partitions)
}

func (c *consumer) onLost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.remove("lost", partitions)
}

func (c *consumer) remove(event string, partitions map[string][]int32) {
	c.mu.Lock()
	for topic, numbers := range partitions {
		c.assigned[topic] = slices.DeleteFunc(c.assigned[topic], func(number int32) bool {
			return slices.Contains(numbers, number)
		})
	}
	c.mu.Unlock()
	if len(partitions) > 0 { // The client calls its functions at the end of every session, also for nothing.
		c.addEvent(object{"type": event, "partitions": places(partitions)})
	}
}

func (c *consumer) assignment() []any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return places(c.assigned)
}

func (c *consumer) addEvent(event object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, event)
	if c.stopPoll != nil {
		c.stopPoll()
	}
}

func (c *consumer) takeEvents() []object {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := append([]object{}, c.events...)
	c.events = nil
	return taken
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
