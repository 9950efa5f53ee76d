//go:build tools

// Package tools names the program whose version this module pins.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
