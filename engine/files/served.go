package files

import "strings"

// The files that a server keeps in the directory of the store that it serves. They are no
// part of the store: what opens, copies or checks a store passes over them.
const (
	ServerInfo   = "serve.json"  // where it listens
	ServerSocket = "serve.sock"  // a unix socket
	ServerToken  = "serve.token" // what clients send over TCP of the loopback device
)

// TempSuffix ends the name of ServerInfo or ServerToken while it is written.
const TempSuffix = ".tmp"

// IsServers reports whether a file of this name is a server's.
func IsServers(name string) bool {
	whole := strings.TrimSuffix(name, TempSuffix)
	return name == ServerSocket || whole == ServerInfo || whole == ServerToken
}
