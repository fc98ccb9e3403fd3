package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

// values are the settings that are not in the client's Config, or more than one field of it.
type values struct {
	seeds                     []string
	groupID, security, caFile string
	acks                      any
	resets                    bool
}

// setting stores one neutral setting.
type setting func(raw json.RawMessage, config *sarama.Config, v *values) error

var common = map[string]setting{
	"bootstrap_servers": set(func(_ *sarama.Config, v *values, seeds []string) { v.seeds = seeds }),
	"client_id":         set(func(c *sarama.Config, _ *values, id string) { c.ClientID = id }),
	"request_timeout_ms": ms(func(c *sarama.Config) []*time.Duration {
		return []*time.Duration{&c.Net.ReadTimeout, &c.Net.WriteTimeout}
	}),
	"socket_setup_timeout_ms": ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Net.DialTimeout} }),
	"metadata_max_age_ms":     ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Metadata.RefreshFrequency} }),
	"retry_backoff_ms": ms(func(c *sarama.Config) []*time.Duration {
		return []*time.Duration{&c.Metadata.Retry.Backoff, &c.Producer.Retry.Backoff, &c.Consumer.Retry.Backoff,
			&c.Admin.Retry.Backoff, &c.Producer.Transaction.Retry.Backoff}
	}),
	"security_protocol": set(func(_ *sarama.Config, v *values, protocol string) { v.security = protocol }),
	"sasl_mechanism":    set(func(c *sarama.Config, _ *values, name string) { c.Net.SASL.Mechanism = sarama.SASLMechanism(name) }),
	"username":          set(func(c *sarama.Config, _ *values, username string) { c.Net.SASL.User = username }),
	"password":          set(func(c *sarama.Config, _ *values, password string) { c.Net.SASL.Password = password }),
	"tls_ca_file":       set(func(_ *sarama.Config, v *values, path string) { v.caFile = path }),
}

var producing = map[string]setting{
	"acks":        set(func(_ *sarama.Config, v *values, acks any) { v.acks = acks }),
	"idempotence": set(func(c *sarama.Config, _ *values, on bool) { c.Producer.Idempotent = on }),
	"linger_ms":   ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Producer.Flush.Frequency} }),
	"compression": func(raw json.RawMessage, c *sarama.Config, _ *values) error {
		return json.Unmarshal(raw, &c.Producer.Compression) // The codec has the names of the protocol.
	},
	"max_in_flight":          set(func(c *sarama.Config, _ *values, count int) { c.Net.MaxOpenRequests = count }),
	"retries":                set(func(c *sarama.Config, _ *values, count int) { c.Producer.Retry.Max = count }),
	"max_request_size":       set(func(c *sarama.Config, _ *values, size int) { c.Producer.MaxMessageBytes = size }),
	"transactional_id":       set(func(c *sarama.Config, _ *values, id string) { c.Producer.Transaction.ID = id }),
	"transaction_timeout_ms": ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Producer.Transaction.Timeout} }),
}

var consuming = map[string]setting{
	"group_id":          set(func(_ *sarama.Config, v *values, group string) { v.groupID = group }),
	"group_instance_id": set(func(c *sarama.Config, _ *values, id string) { c.Consumer.Group.InstanceId = id }),
	"assignors": func(raw json.RawMessage, c *sarama.Config, _ *values) error {
		known := map[string]sarama.BalanceStrategy{
			"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(),
			"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky(),
		}
		var names []string
		if err := json.Unmarshal(raw, &names); err != nil {
			return err
		}
		c.Consumer.Group.Rebalance.GroupStrategies = nil
		for _, name := range names {
			if known[name] == nil {
				return unsupported("assignor " + name)
			}
			c.Consumer.Group.Rebalance.GroupStrategies = append(c.Consumer.Group.Rebalance.GroupStrategies, known[name])
		}
		return nil
	},
	"session_timeout_ms":    ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Consumer.Group.Session.Timeout} }),
	"heartbeat_interval_ms": ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Consumer.Group.Heartbeat.Interval} }),
	"auto_offset_reset": func(raw json.RawMessage, c *sarama.Config, v *values) error {
		v.resets = true
		offsets := map[string]int64{`"earliest"`: sarama.OffsetOldest, `"latest"`: sarama.OffsetNewest}
		offset, ok := offsets[string(raw)]
		if !ok {
			return unsupported(string(raw))
		}
		c.Consumer.Offsets.Initial = offset
		return nil
	},
	"enable_auto_commit": set(func(c *sarama.Config, _ *values, on bool) { c.Consumer.Offsets.AutoCommit.Enable = on }),
	"auto_commit_interval_ms": ms(func(c *sarama.Config) []*time.Duration {
		return []*time.Duration{&c.Consumer.Offsets.AutoCommit.Interval}
	}),
	"isolation_level": func(raw json.RawMessage, c *sarama.Config, _ *values) error {
		c.Consumer.IsolationLevel = sarama.ReadUncommitted
		if string(raw) == `"read_committed"` {
			c.Consumer.IsolationLevel = sarama.ReadCommitted
		}
		return nil
	},
	"fetch_min_bytes":           set(func(c *sarama.Config, _ *values, size int32) { c.Consumer.Fetch.Min = size }),
	"fetch_max_wait_ms":         ms(func(c *sarama.Config) []*time.Duration { return []*time.Duration{&c.Consumer.MaxWaitTime} }),
	"fetch_max_bytes":           set(func(c *sarama.Config, _ *values, size int32) { c.Consumer.Fetch.MaxBytes = size }),
	"max_partition_fetch_bytes": set(func(c *sarama.Config, _ *values, size int32) { c.Consumer.Fetch.Default = size }),
	"client_rack":               set(func(c *sarama.Config, _ *values, rack string) { c.RackID = rack }),
}

var tables = map[string][]map[string]setting{
	"producer": {common, producing},
	"consumer": {common, consuming},
	"admin":    {common},
}

func settingNames() []string {
	names := []string{}
	for _, group := range tables {
		for _, table := range group {
			for name := range table {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// translate returns the Config of a client; what is not set keeps the client's default.
func translate(kind string, settings map[string]json.RawMessage) (*sarama.Config, *values, error) {
	config, v := sarama.NewConfig(), &values{}
	for name, raw := range settings {
		var found setting
		for _, table := range tables[kind] {
			if table[name] != nil {
				found = table[name]
			}
		}
		if found == nil {
			return nil, nil, unsupported("setting " + name + " of a " + kind)
		}
		if err := found(raw, config, v); err != nil {
			return nil, nil, fmt.Errorf("setting %s: %w", name, err)
		}
	}
	config.Producer.Return.Successes = true
	config.Consumer.Return.Errors = true
	v.setProducer(config, settings)
	return config, v, v.secure(config)
}

// setProducer sets what the client demands beside a setting: it refuses an idempotent producer without these.
func (v *values) setProducer(config *sarama.Config, settings map[string]json.RawMessage) {
	switch v.acks {
	case float64(0):
		config.Producer.RequiredAcks = sarama.NoResponse
	case float64(1):
		config.Producer.RequiredAcks = sarama.WaitForLocal
	case "all":
		config.Producer.RequiredAcks = sarama.WaitForAll
	}
	if config.Producer.Transaction.ID != "" {
		config.Producer.Idempotent = true
	}
	if config.Producer.Idempotent {
		if v.acks == nil {
			config.Producer.RequiredAcks = sarama.WaitForAll
		}
		if settings["max_in_flight"] == nil {
			config.Net.MaxOpenRequests = 1
		}
	}
}

func (v *values) secure(config *sarama.Config) error {
	if v.security == "SSL" || v.security == "SASL_SSL" {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = &tls.Config{MinVersion: tls.VersionTLS12}
		if v.caFile != "" {
			pem, err := os.ReadFile(v.caFile)
			if err != nil {
				return illegalState(err.Error())
			}
			config.Net.TLS.Config.RootCAs = x509.NewCertPool()
			config.Net.TLS.Config.RootCAs.AppendCertsFromPEM(pem)
		}
	}
	if v.security == "SASL_PLAINTEXT" || v.security == "SASL_SSL" {
		config.Net.SASL.Enable = true
		switch config.Net.SASL.Mechanism {
		case sarama.SASLTypePlaintext:
		case sarama.SASLTypeSCRAMSHA256:
			config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA256} }
		case sarama.SASLTypeSCRAMSHA512:
			config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: scram.SHA512} }
		default:
			return unsupported("sasl_mechanism " + string(config.Net.SASL.Mechanism))
		}
	}
	return nil
}

// scramClient gives sarama the SCRAM that it leaves to applications.
type scramClient struct {
	*scram.ClientConversation
	hash scram.HashGeneratorFcn
}

func (c *scramClient) Begin(username, password, authzID string) error {
	client, err := c.hash.NewClient(username, password, authzID)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

func set[T any](store func(*sarama.Config, *values, T)) setting {
	return func(raw json.RawMessage, config *sarama.Config, v *values) error {
		var value T
		err := json.Unmarshal(raw, &value)
		store(config, v, value)
		return err
	}
}

// ms is a setting of milliseconds that is one or several fields.
func ms(fields func(*sarama.Config) []*time.Duration) setting {
	return set(func(config *sarama.Config, _ *values, milliseconds int64) {
		for _, field := range fields(config) {
			*field = time.Duration(milliseconds) * time.Millisecond
		}
	})
}
