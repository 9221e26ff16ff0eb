package server

import (
	"net/netip"
	"testing"
)

// TestPublicAddresses: webhooks lead into no network of one's own, however its address is written.
func TestPublicAddresses(t *testing.T) {
	for _, a := range []string{"93.184.216.34", "::ffff:93.184.216.34", "2606:4700::1111", "2606:4700::1111%eth0"} {
		if !isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is not public", a)
		}
	}
	for _, a := range []string{"127.0.0.1", "127.8.9.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "192.0.0.8", "198.18.0.1",
		"224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::1%lo", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "::ffff:0:7f00:1", "fe80::1%eth0", "fc00::1", "fd00::1%eth0", "fec0::1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b::7f00:1%eth0", "64:ff9b:1::a00:1%eth0", "2002:7f00:1::", "2002:7f00:1::%lo", "2001:0:a00:1::1"} {
		if isPublic(netip.MustParseAddr(a)) {
			t.Errorf("%s is public", a)
		}
	}
}
