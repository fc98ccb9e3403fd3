// Package mockbroker starts mockbroker, a Kafka cluster for tests, and controls it over HTTP.
package mockbroker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 10 * time.Second
	waitLimit  = 10 * time.Second
	nearestMax = "5"
)

// Broker is a process of the command mockbroker.
type Broker struct {
	// BootstrapServers is what clients need: host:port, comma-separated.
	BootstrapServers string
	// ControlURL is the URL of the control; /openapi.json below it describes all operations.
	ControlURL string

	t      testing.TB
	client *http.Client
}

// M is an object of JSON.
type M = map[string]any

// Exchange is a request with its response.
type Exchange struct {
	Number   int              `json:"number"`
	API      string           `json:"api"`
	Version  int              `json:"version"`
	ClientID *string          `json:"clientId"`
	Topics   map[string][]int `json:"topics"`
	Errors   []string         `json:"errors"`
	Faults   []string         `json:"faults"`
	Request  M                `json:"request"`
	Response M                `json:"response"`
}

// Start starts a cluster on free ports, with short timers, and returns when it accepts connections. Options are those
// of the command, as "--topic", "orders:2"; the variable MOCKBROKER names the command if it is not on the PATH. At the
// end of the test the process ends, and the test fails if one of its faults has not acted. The process also ends when
// the program of the tests ends in any way, since its standard input is closed then.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	name := os.Getenv("MOCKBROKER")
	if name == "" {
		name = "mockbroker"
	}
	words := []string{"--port", "0", "--control", "0", "--profile", "quick", "--log-level", "warning", "--exit-with-stdin"}
	command := exec.Command(name, append(words, options...)...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("cannot start mockbroker: %v", err)
	}
	b := &Broker{t: t, client: &http.Client{Timeout: waitLimit + 10*time.Second}}
	t.Cleanup(func() {
		b.client.CloseIdleConnections()
		kill := time.AfterFunc(stopLimit, func() { command.Process.Kill() })
		defer kill.Stop()
		stdin.Close()
		if err := command.Wait(); err != nil && !t.Failed() {
			t.Errorf("mockbroker: %v", err)
		}
	})

	limit := time.AfterFunc(startLimit, func() { command.Process.Kill() })
	defer limit.Stop()
	lines := bufio.NewScanner(stdout)
	for _, address := range []*string{&b.BootstrapServers, &b.ControlURL} {
		if !lines.Scan() {
			t.Fatal("mockbroker has ended before it printed its addresses; its error is in the output above")
		}
		*address = lines.Text()
	}
	t.Cleanup(func() { // Runs before the one above.
		if !t.Failed() {
			b.AssertFaultsActed()
		}
	})
	return b
}

// AddFault adds a fault and returns its number. When: which requests, as M{"api": "Produce", "times": 2}; then: what
// happens to them, as M{"error": "NOT_LEADER_OR_FOLLOWER"}.
func (b *Broker) AddFault(when, then M) int {
	b.t.Helper()
	var added struct{ Faults []struct{ Number int } }
	b.Request("POST", "/v1/faults", M{"when": when, "then": then}, &added)
	return added.Faults[0].Number
}

// AssertFaultsActed marks the test as failed if a fault has not acted.
func (b *Broker) AssertFaultsActed() {
	b.t.Helper()
	var answer struct{ Misses []struct{ Message string } }
	b.Request("GET", "/v1/faults/misses", nil, &answer)
	for _, miss := range answer.Misses {
		b.t.Error(miss.Message)
	}
}

// WaitForGroup waits until a group is in a state with a number of members.
func (b *Broker) WaitForGroup(groupID, state string, members int) {
	b.t.Helper()
	b.waitFor("group", M{"groupId": groupID, "state": state, "members": members})
}

// WaitForOffset waits until a group has committed an offset, or a later one.
func (b *Broker) WaitForOffset(groupID, topic string, partition int, offset int64) {
	b.t.Helper()
	b.waitFor("offset", M{"groupId": groupID, "topic": topic, "partition": partition, "offset": offset})
}

// WaitForRequests waits until so many requests of an API have come.
func (b *Broker) WaitForRequests(api string, count int) {
	b.t.Helper()
	b.waitFor("request", M{"api": api, "count": count})
}

func (b *Broker) waitFor(what string, condition M) {
	b.t.Helper()
	condition["timeoutMs"] = waitLimit.Milliseconds()
	b.Request("POST", "/v1/waits/"+what, condition, nil)
}

// Exchanges returns the requests of an API that match, oldest first, each with its response. Filters are pairs of a
// name and a value, as "topic", "orders"; docs/control.md has their names.
func (b *Broker) Exchanges(api string, filters ...string) []Exchange {
	b.t.Helper()
	exchanges, _ := b.find(append([]string{"api", api}, filters...))
	return exchanges
}

// AssertCount marks the test as failed unless exactly so many requests match, and shows those that come nearest.
func (b *Broker) AssertCount(want int, api string, filters ...string) {
	b.t.Helper()
	if _, count := b.find(append([]string{"api", api, "bodies", "false"}, filters...)); count != want {
		b.t.Errorf("want %d requests of %s with %v, but there are %d; the nearest:\n%s",
			want, api, filters, count, b.nearest(api))
	}
}

// nearest describes the newest requests of this API, or of all if there is none, a line for each.
func (b *Broker) nearest(api string) string {
	b.t.Helper()
	newest := []string{"order", "desc", "limit", nearestMax, "bodies", "false"}
	exchanges, count := b.find(append([]string{"api", api}, newest...))
	if count == 0 {
		exchanges, _ = b.find(newest)
	}
	lines := []string{"  none: no request has come"}
	for index, each := range exchanges {
		if index == 0 {
			lines = nil
		}
		clientID := "null"
		if each.ClientID != nil {
			clientID = fmt.Sprintf("%q", *each.ClientID)
		}
		lines = append(lines, fmt.Sprintf("  #%d %s v%d, client %s, topics %v, errors %v, faults %v",
			each.Number, each.API, each.Version, clientID, each.Topics, each.Errors, each.Faults))
	}
	return strings.Join(lines, "\n")
}

// find returns the matching exchanges, and how many match in all.
func (b *Broker) find(parameters []string) ([]Exchange, int) {
	b.t.Helper()
	query := url.Values{}
	for index := 0; index+1 < len(parameters); index += 2 {
		query.Set(parameters[index], parameters[index+1])
	}
	var answer struct {
		Exchanges []Exchange
		Count     int
	}
	b.Request("GET", "/v1/exchanges?"+query.Encode(), nil, &answer)
	return answer.Exchanges, answer.Count
}

// Reset drops all topics, records, groups, faults and the history: the cluster is as after its start.
func (b *Broker) Reset() {
	b.t.Helper()
	b.Request("POST", "/v1/cluster/reset", nil, nil)
}

// Request sends any operation of the control: body as JSON, nil for none; answer is filled unless it is nil. If the
// control refuses, or a wait was in vain, the test ends with its explanation.
func (b *Broker) Request(method, path string, body, answer any) {
	b.t.Helper()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, b.ControlURL+path, content)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var problem struct{ Detail string }
		_ = json.NewDecoder(response.Body).Decode(&problem) // The status says enough if this is no problem of the control.
		b.t.Fatalf("%s %s: %s: %s", method, path, response.Status, problem.Detail)
	}
	if answer != nil {
		if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
			b.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}
