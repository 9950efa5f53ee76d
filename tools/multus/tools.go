//go:build tools

// Package tools names the program whose version this module pins.
package tools

import (
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
)
