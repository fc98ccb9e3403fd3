package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// localError is what the driver itself finds.
type localError struct{ name, message string }

func (e *localError) Error() string { return e.message }

func unsupported(what string) error {
	return &localError{"LOCAL_UNSUPPORTED", what + ": not supported"}
}
func illegalState(message string) error { return &localError{"LOCAL_ILLEGAL_STATE", message} }

// describe gives an error the name that it has in the protocol; retriable is what the client says about Kafka's errors.
func describe(err error) object {
	if code, ok := errors.AsType[*kerr.Error](err); ok {
		name := code.Message
		if code == kerr.NotLeaderForPartition {
			name = "NOT_LEADER_OR_FOLLOWER" // Its name since Kafka 2.6.
		}
		return object{"name": name, "message": err.Error(), "retriable": code.Retriable}
	}
	return object{"name": localName(err), "message": err.Error()}
}

func describeOrNull(err error) any {
	if err == nil {
		return nil
	}
	return describe(err)
}

func localName(err error) string {
	if local, ok := errors.AsType[*localError](err); ok {
		return local.name
	}
	switch {
	case isTLS(err):
		return "LOCAL_AUTHENTICATION"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, kgo.ErrRecordTimeout):
		return "LOCAL_TIMEOUT"
	case errors.Is(err, kgo.ErrClientClosed):
		return "LOCAL_ILLEGAL_STATE"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), isNetwork(err):
		return "LOCAL_TRANSPORT"
	}
	return "LOCAL_OTHER"
}

func isTLS(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, wrongName := errors.AsType[x509.HostnameError](err)
	return unverified || noTLS || wrongName
}

func isNetwork(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}
