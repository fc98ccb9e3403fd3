//go:build tools

// Package foreign names the module whose tests run: github.com/twmb/franz-go/pkg/kgo.
package foreign

import _ "github.com/twmb/franz-go/pkg/kgo"
