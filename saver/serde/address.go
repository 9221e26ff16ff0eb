package serde

import (
	"fmt"
	"net/netip"
	"strings"
)

// IPInterface is Python's IPv4Interface or IPv6Interface: an address together
// with the length of its network's prefix. A netip.Prefix is the network
// itself, and a netip.Addr the address alone.
type IPInterface struct{ netip.Prefix }

// addressClass is the module and name of the Python type of an address.
func addressClass(v6 bool, what string) string {
	if v6 {
		return "IPv6" + what
	}
	return "IPv4" + what
}

func (e *encoder) address(v any) error {
	var class, text string
	var valid bool
	switch v := v.(type) {
	case netip.Addr:
		class, text, valid = addressClass(v.Is6(), "Address"), v.String(), v.IsValid()
	case netip.Prefix:
		class, text, valid = addressClass(v.Addr().Is6(), "Network"), v.String(), v.IsValid()
		if valid && v != v.Masked() {
			class = addressClass(v.Addr().Is6(), "Interface")
		}
	case IPInterface:
		class, text, valid = addressClass(v.Addr().Is6(), "Interface"), v.String(), v.IsValid()
	}
	if !valid {
		return e.fail(v, fmt.Errorf("the zero address: %w", ErrRange))
	}
	return e.named(ExtSingle, "ipaddress", class, text, "")
}

// nativeAddress is the inverse. Text that Go would write differently has no native form:
// Python before 3.13 writes mapped IPv4 addresses in hexadecimal.
func nativeAddress(class, text string) (any, bool) {
	version, what := class[:min(4, len(class))], class[min(4, len(class)):]
	var addr netip.Addr
	var out any
	switch what {
	case "Address":
		a, err := netip.ParseAddr(text)
		if err != nil || a.String() != text {
			return nil, false
		}
		addr, out = a, a
	case "Network", "Interface":
		p, err := netip.ParsePrefix(text)
		if err != nil || p.String() != text || (what == "Network" && p != p.Masked()) {
			return nil, false
		}
		addr, out = p.Addr(), p
		if what == "Interface" {
			out = IPInterface{p}
		}
	default:
		return nil, false
	}
	return out, strings.HasPrefix(addressClass(addr.Is6(), what), version)
}
