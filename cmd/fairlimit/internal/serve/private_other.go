//go:build !unix

package serve

func private() (restore func()) { return func() {} }
