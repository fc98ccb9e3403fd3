package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// values are the settings that are more than one option, or that a method of the driver needs.
type values struct {
	tls, sasl, mechanism, username, password, caFile string
	groupID                                          string
	retryBackoff, retryBackoffMax                    time.Duration
	acks                                             any
	idempotence                                      *bool
	groupProtocol, remoteAssignor                    string
	autoCommit, explicit                             bool
	maxPollRecords                                   int
}

// setting translates one neutral setting to options of the client, or keeps its value.
type setting func(raw json.RawMessage, v *values) ([]kgo.Opt, error)

var common = map[string]setting{
	"bootstrap_servers": option(func(seeds []string) kgo.Opt { return kgo.SeedBrokers(seeds...) }),
	"client_id":         option(kgo.ClientID),
	"request_timeout_ms": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		ms, err := read[int64](raw)
		limit := time.Duration(ms) * time.Millisecond
		return []kgo.Opt{kgo.RequestTimeoutOverhead(limit), kgo.ProduceRequestTimeout(limit)}, err
	},
	"connections_max_idle_ms": duration(kgo.ConnIdleTimeout),
	"socket_setup_timeout_ms": duration(kgo.DialTimeout),
	"metadata_max_age_ms": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		age, err := read[int64](raw)
		opts := []kgo.Opt{kgo.MetadataMaxAge(time.Duration(age) * time.Millisecond)}
		if age < 5000 { // The client's least time between two requests; it may not be longer.
			opts = append(opts, kgo.MetadataMinAge(time.Duration(age)*time.Millisecond))
		}
		return opts, err
	},
	"retry_backoff_ms":     keep(func(v *values, ms int64) { v.retryBackoff = time.Duration(ms) * time.Millisecond }),
	"retry_backoff_max_ms": keep(func(v *values, ms int64) { v.retryBackoffMax = time.Duration(ms) * time.Millisecond }),
	"security_protocol":    keep(func(v *values, protocol string) { v.tls = protocol }),
	"sasl_mechanism":       keep(func(v *values, mechanism string) { v.mechanism = mechanism }),
	"username":             keep(func(v *values, username string) { v.username = username }),
	"password":             keep(func(v *values, password string) { v.password = password }),
	"tls_ca_file":          keep(func(v *values, path string) { v.caFile = path }),
}

var producing = map[string]setting{
	"acks":        keep(func(v *values, acks any) { v.acks = acks }),
	"idempotence": keep(func(v *values, on bool) { v.idempotence = &on }),
	"linger_ms":   duration(kgo.ProducerLinger),
	"compression": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		codec, err := choose(raw, map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		})
		return []kgo.Opt{kgo.ProducerBatchCompression(codec)}, err
	},
	"max_in_flight":          option(kgo.MaxProduceRequestsInflightPerBroker),
	"retries":                option(kgo.RecordRetries),
	"delivery_timeout_ms":    duration(kgo.RecordDeliveryTimeout),
	"max_request_size":       option(kgo.ProducerBatchMaxBytes),
	"transactional_id":       option(kgo.TransactionalID),
	"transaction_timeout_ms": duration(kgo.TransactionTimeout),
}

var fetching = map[string]setting{
	"fetch_min_bytes":           option(kgo.FetchMinBytes),
	"fetch_max_wait_ms":         duration(kgo.FetchMaxWait),
	"fetch_max_bytes":           option(kgo.FetchMaxBytes),
	"max_partition_fetch_bytes": option(kgo.FetchMaxPartitionBytes),
	"client_rack":               option(kgo.Rack),
	"check_crcs": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		on, err := read[bool](raw)
		if on {
			return nil, err
		}
		return []kgo.Opt{kgo.DisableFetchCRCValidation()}, err
	},
}

var consuming = map[string]setting{
	"group_id":              keep(func(v *values, group string) { v.groupID = group }),
	"group_protocol":        keep(func(v *values, protocol string) { v.groupProtocol = protocol }),
	"remote_assignor":       keep(func(v *values, assignor string) { v.remoteAssignor = assignor }),
	"group_instance_id":     option(kgo.InstanceID),
	"session_timeout_ms":    duration(kgo.SessionTimeout),
	"heartbeat_interval_ms": duration(kgo.HeartbeatInterval),
	"assignors": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		names, err := read[[]string](raw)
		var balancers []kgo.GroupBalancer
		for _, name := range names {
			known := map[string]kgo.GroupBalancer{
				"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
				"cooperative-sticky": kgo.CooperativeStickyBalancer(),
			}
			if known[name] == nil {
				return nil, unsupported("assignor " + name)
			}
			balancers = append(balancers, known[name])
		}
		return []kgo.Opt{kgo.Balancers(balancers...)}, err
	},
	"auto_offset_reset": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		offset, err := choose(raw, map[string]kgo.Offset{
			"earliest": kgo.NewOffset().AtStart(), "latest": kgo.NewOffset().AtEnd(), "none": kgo.NoResetOffset(),
		})
		return []kgo.Opt{kgo.ConsumeResetOffset(offset)}, err
	},
	"enable_auto_commit":      keep(func(v *values, on bool) { v.autoCommit = on }),
	"auto_commit_interval_ms": duration(kgo.AutoCommitInterval),
	"isolation_level": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		level, err := choose(raw, map[string]kgo.IsolationLevel{
			"read_uncommitted": kgo.ReadUncommitted(), "read_committed": kgo.ReadCommitted(),
		})
		return []kgo.Opt{kgo.FetchIsolationLevel(level)}, err
	},
	"max_poll_records": keep(func(v *values, count int) { v.maxPollRecords = count }),
}

var sharing = map[string]setting{
	"group_id":                   option(kgo.ShareGroup),
	"max_poll_records":           option(kgo.ShareMaxRecords),
	"share_acknowledgement_mode": keep(func(v *values, mode string) { v.explicit = mode == "explicit" }),
	"share_acquire_mode": func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		strict, err := choose(raw, map[string]bool{"batch_optimized": false, "record_limit": true})
		if strict {
			return []kgo.Opt{kgo.ShareMaxRecordsStrict()}, err
		}
		return nil, err
	},
}

var tables = map[string][]map[string]setting{
	"producer":       {common, producing},
	"consumer":       {common, fetching, consuming},
	"share_consumer": {common, fetching, sharing},
	"admin":          {common},
}

func settingNames() []string {
	names := map[string]bool{}
	for _, group := range tables {
		for _, table := range group {
			for name := range table {
				names[name] = true
			}
		}
	}
	sorted := []string{}
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

// translate returns the options of a client; what is not set keeps the client's default.
func translate(kind string, settings map[string]json.RawMessage) ([]kgo.Opt, *values, error) {
	opts := []kgo.Opt{kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil))}
	v := &values{autoCommit: true}
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
		made, err := found(raw, v)
		if err != nil {
			return nil, nil, fmt.Errorf("setting %s: %w", name, err)
		}
		opts = append(opts, made...)
	}
	secured, err := v.security()
	opts = append(opts, secured...)
	return append(opts, v.combined()...), v, err
}

// combined has the options that depend on several settings.
func (v *values) combined() []kgo.Opt {
	var opts []kgo.Opt
	if v.retryBackoff > 0 {
		opts = append(opts, kgo.RetryBackoffFn(func(tries int) time.Duration {
			limit := max(v.retryBackoffMax, v.retryBackoff)
			return min(v.retryBackoff<<min(tries-1, 16), limit)
		}))
	}
	switch v.acks {
	case float64(0):
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()))
	case float64(1):
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	asked := v.idempotence != nil
	if asked && !*v.idempotence || !asked && v.acks != nil && v.acks != "all" {
		opts = append(opts, kgo.DisableIdempotentWrite()) // Without idempotence: acks 0 and 1 are refused with it.
	}
	if v.groupProtocol == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
		if v.remoteAssignor == "range" {
			opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
		} else {
			opts = append(opts, kgo.Balancers(kgo.StickyBalancer())) // The assignor "uniform".
		}
	}
	return opts
}

func (v *values) security() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if v.tls == "SSL" || v.tls == "SASL_SSL" {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if v.caFile != "" {
			pem, err := os.ReadFile(v.caFile)
			if err != nil {
				return nil, illegalState(err.Error())
			}
			config.RootCAs = x509.NewCertPool()
			config.RootCAs.AppendCertsFromPEM(pem)
		}
		opts = append(opts, kgo.DialTLSConfig(config))
	}
	if v.tls == "SASL_PLAINTEXT" || v.tls == "SASL_SSL" {
		mechanism := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: v.username, Pass: v.password}.AsMechanism(),
			"SCRAM-SHA-256": scram.Auth{User: v.username, Pass: v.password}.AsSha256Mechanism(),
			"SCRAM-SHA-512": scram.Auth{User: v.username, Pass: v.password}.AsSha512Mechanism(),
		}[v.mechanism]
		if mechanism == nil {
			return nil, unsupported("sasl_mechanism " + v.mechanism)
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	return opts, nil
}

func read[T any](raw json.RawMessage) (T, error) {
	var value T
	err := json.Unmarshal(raw, &value)
	return value, err
}

// option is a setting that is one option with a value of the same type.
func option[T any, O kgo.Opt](make func(T) O) setting {
	return func(raw json.RawMessage, _ *values) ([]kgo.Opt, error) {
		value, err := read[T](raw)
		return []kgo.Opt{make(value)}, err
	}
}

// duration is a setting of milliseconds that is one option.
func duration[O kgo.Opt](make func(time.Duration) O) setting {
	return option(func(ms int64) kgo.Opt { return make(time.Duration(ms) * time.Millisecond) })
}

func keep[T any](store func(*values, T)) setting {
	return func(raw json.RawMessage, v *values) ([]kgo.Opt, error) {
		value, err := read[T](raw)
		store(v, value)
		return nil, err
	}
}

// choose translates the name of a choice.
func choose[T any](raw json.RawMessage, choices map[string]T) (T, error) {
	name, err := read[string](raw)
	value, ok := choices[name]
	if err == nil && !ok {
		err = unsupported(name)
	}
	return value, err
}
