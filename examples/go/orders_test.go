package orders

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/orders/mockbroker"
)

func connect(t *testing.T, broker *mockbroker.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(broker.BootstrapServers), kgo.ClientID("shop"),
		kgo.MetadataMinAge(10*time.Millisecond))
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func send(t *testing.T, broker *mockbroker.Broker, value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	record := &kgo.Record{Topic: "orders", Value: []byte(value)}
	if err := connect(t, broker).ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestAProducerRetriesWhenTheLeaderHasMoved(t *testing.T) {
	broker := mockbroker.Start(t, "--topic", "orders:1")
	broker.AddFault(mockbroker.M{"api": "Produce", "topic": "orders", "times": 2},
		mockbroker.M{"error": "NOT_LEADER_OR_FOLLOWER"})

	send(t, broker, "one espresso")

	broker.AssertCount(3, "Produce", "topic", "orders", "clientId", "shop")
	broker.AssertCount(2, "Produce", "error", "NOT_LEADER_OR_FOLLOWER")
}

func TestAConsumerCommitsWhatItHasRead(t *testing.T) {
	broker := mockbroker.Start(t, "--topic", "orders:1")
	send(t, broker, "one espresso")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	consumer := connect(t, broker, kgo.ConsumerGroup("kitchen"), kgo.ConsumeTopics("orders"))
	records := consumer.PollFetches(ctx).Records()
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}

	if len(records) != 1 || string(records[0].Value) != "one espresso" {
		t.Fatalf("want the order, got %v", records)
	}
	broker.WaitForGroup("kitchen", "Stable", 1)
	broker.WaitForOffset("kitchen", "orders", 0, 1)
}

// failures records what a helper reports of a test, in the place of the test.
type failures struct {
	testing.TB
	messages []string
}

func (f *failures) Errorf(format string, values ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, values...))
}

func TestAFailingAssertionShowsTheNearestRequests(t *testing.T) {
	reported := &failures{TB: t}
	broker := mockbroker.Start(reported, "--topic", "orders:1")
	send(t, broker, "one espresso")

	broker.AssertCount(1, "Produce", "clientId", "kitchen")

	message := strings.Join(reported.messages, "\n")
	for _, want := range []string{"but there are 0", `client "shop", topics map[orders:[0]]`} {
		if !strings.Contains(message, want) {
			t.Errorf("want %q in %q", want, message)
		}
	}
}

func TestTheProcessEndsWithItsTest(t *testing.T) {
	var broker *mockbroker.Broker
	if !t.Run("within", func(t *testing.T) { broker = mockbroker.Start(t) }) {
		return
	}

	if _, err := http.Get(broker.ControlURL + "/v1/cluster"); err == nil {
		t.Error("the control still answers")
	}
}
