// franz-go's share consumer in several situations, each with a topic and a group of its own. The first argument is the
// bootstrap list; writes one line for each situation: its name, a colon, and what was seen.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	patience = 20 * time.Second
	lock     = 2 * time.Second // Short, but long enough for a busy machine.
)

type scenario struct {
	name      string
	bootstrap []string

	mu      sync.Mutex
	refused []error
}

func main() {
	bootstrap := strings.Split(os.Args[1], ",")
	scenarios := []struct {
		name string
		run  func(*scenario, context.Context) (string, error)
	}{
		{"implicit", (*scenario).implicit},
		{"explicit", (*scenario).explicit},
		{"renew", (*scenario).renew},
		{"strict", (*scenario).strict},
	}
	lines := make([]string, len(scenarios))
	var all sync.WaitGroup
	for i, one := range scenarios {
		all.Add(1)
		go func() {
			defer all.Done()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			seen, err := one.run(&scenario{name: one.name, bootstrap: bootstrap}, ctx)
			if err != nil {
				seen = fmt.Sprintf("failed: %v", err)
			}
			lines[i] = one.name + ": " + seen
		}()
	}
	all.Wait()
	fmt.Println(strings.Join(lines, "\n"))
}

// Three members get every record once between them, and acknowledge by polling on.
func (s *scenario) implicit(ctx context.Context) (string, error) {
	if err := s.prepare(ctx, 600, 3, nil); err != nil {
		return "", err
	}
	seen := make(chan int)
	until, stop := context.WithCancel(ctx)
	defer stop()
	for range 3 {
		client, err := s.consumer()
		if err != nil {
			return "", err
		}
		defer client.Close()
		go func() {
			for until.Err() == nil {
				seen <- len(client.PollFetches(until).Records())
			}
		}()
	}
	count := 0
	for count < 600 {
		select {
		case more := <-seen:
			count += more
		case <-ctx.Done():
			return "", fmt.Errorf("%d records", count)
		}
	}
	return s.describe(fmt.Sprint(count)), nil
}

// Accepted, released and rejected in turn: the released ones come again.
func (s *scenario) explicit(ctx context.Context) (string, error) {
	if err := s.prepare(ctx, 6, 1, nil); err != nil {
		return "", err
	}
	client, err := s.consumer()
	if err != nil {
		return "", err
	}
	defer client.Close()
	kinds := []kgo.AckStatus{kgo.AckAccept, kgo.AckRelease, kgo.AckReject}
	var again []string
	for settled := 0; settled < 6; {
		for _, record := range client.PollFetches(ctx).Records() {
			kind := kinds[record.Offset%3]
			if record.DeliveryCount() > 1 {
				again = append(again, fmt.Sprintf("%d=%d", record.Offset, record.DeliveryCount()))
				kind = kgo.AckAccept
			}
			if kind != kgo.AckRelease {
				settled++
			}
			record.Ack(kind)
		}
		if err := client.FlushAcks(ctx); err != nil {
			return "", err
		}
	}
	return s.describe("again " + strings.Join(again, " ")), nil
}

// A lock that is renewed twice outlives its first term.
func (s *scenario) renew(ctx context.Context) (string, error) {
	settings := map[string]string{"share.record.lock.duration.ms": fmt.Sprint(lock.Milliseconds())}
	if err := s.prepare(ctx, 1, 1, settings); err != nil {
		return "", err
	}
	client, err := s.consumer()
	if err != nil {
		return "", err
	}
	defer client.Close()
	records := client.PollFetches(ctx).Records()
	if len(records) != 1 {
		return "", fmt.Errorf("%d records", len(records))
	}
	for _, kind := range []kgo.AckStatus{kgo.AckRenew, kgo.AckRenew, kgo.AckAccept} {
		time.Sleep(lock * 6 / 10)
		records[0].Ack(kind)
		if err := client.FlushAcks(ctx); err != nil {
			return "", err
		}
	}
	return s.describe(fmt.Sprintf("delivered %d", records[0].DeliveryCount())), nil
}

// A strict limit cuts through record batches.
func (s *scenario) strict(ctx context.Context) (string, error) {
	if err := s.prepare(ctx, 10, 1, nil); err != nil {
		return "", err
	}
	client, err := s.consumer(kgo.ShareMaxRecords(4), kgo.ShareMaxRecordsStrict())
	if err != nil {
		return "", err
	}
	defer client.Close()
	var sizes []string
	for count := 0; count < 10 && ctx.Err() == nil; {
		records := client.PollFetches(ctx).Records()
		if len(records) > 0 {
			sizes = append(sizes, fmt.Sprint(len(records)))
		}
		count += len(records)
	}
	return s.describe(strings.Join(sizes, " ")), nil
}

// What the scenarios are made of.

func (s *scenario) describe(observed string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) > 0 {
		return fmt.Sprintf("%s, refused: %v", observed, s.refused)
	}
	return observed
}

func (s *scenario) consumer(more ...kgo.Opt) (*kgo.Client, error) {
	note := func(_ *kgo.Client, results kgo.ShareAckResults) {
		if err := results.Error(); err != nil {
			s.mu.Lock()
			s.refused = append(s.refused, err)
			s.mu.Unlock()
		}
	}
	return kgo.NewClient(append(more,
		kgo.SeedBrokers(s.bootstrap...),
		kgo.ConsumeTopics(s.name),
		kgo.ShareGroup(s.name),
		kgo.ShareAckCallback(note),
	)...)
}

// A topic with records, and a group that starts at the earliest of them.
func (s *scenario) prepare(ctx context.Context, count, partitions int, settings map[string]string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.bootstrap...), kgo.DefaultProduceTopic(s.name),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = s.name, int32(partitions), 1
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	create.Topics = append(create.Topics, topic)
	if _, err := create.RequestWith(ctx, client); err != nil {
		return err
	}
	group := kmsg.NewIncrementalAlterConfigsRequestResource()
	group.ResourceType, group.ResourceName = kmsg.ConfigResourceTypeGroupConfig, s.name
	set := func(name, value string) {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, &value
		group.Configs = append(group.Configs, config)
	}
	set("share.auto.offset.reset", "earliest")
	for name, value := range settings {
		set(name, value)
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = append(alter.Resources, group)
	answer, err := alter.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if code := answer.Resources[0].ErrorCode; code != 0 {
		return fmt.Errorf("the group's configuration is refused with code %d", code)
	}
	for i := range count {
		client.Produce(ctx, kgo.StringRecord(fmt.Sprint("value ", i)), func(_ *kgo.Record, failed error) {
			if failed != nil {
				s.mu.Lock()
				s.refused = append(s.refused, failed)
				s.mu.Unlock()
			}
		})
	}
	return client.Flush(ctx)
}
