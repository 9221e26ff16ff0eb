package server

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/wire"
)

const (
	// InfoName is the file by which clients find the server of a directory.
	InfoName   = engine.ServedPrefix + "json"
	socketName = engine.ServedPrefix + "sock"  // a unix socket
	tokenName  = engine.ServedPrefix + "token" // has the token that clients send over TCP of the loopback device

	// maxSocketPath is the longest path of a socket that all systems take, with room.
	maxSocketPath = 100
)

// Info is the content of the file InfoName.
type Info struct {
	Protocol  int    `json:"protocol"`
	Address   string `json:"address"`
	PID       int    `json:"pid"`
	TokenFile string `json:"token_file"`
	// Proof: the server knows wire.Prove, and clients that do must send no token.
	Proof bool `json:"proof,omitempty"`
}

// Endpoint is where the server of a directory listens. Whoever makes one must hold the lock
// of the store there, and give it up only after Close: the lock says who serves, and files of
// a server that was killed are replaced.
type Endpoint struct {
	Listener
	// Address is what clients connect to, as in InfoName, but with whole paths.
	Address string
	// Token is what clients must send; "" if none is asked for.
	Token string

	dir    string
	root   *os.Root // the directory, wherever it is moved
	names  []string // of files in it, in the order in which they are removed
	remove []string // paths elsewhere, likewise
	closed bool
}

// errNoSocket says that a unix socket has no place.
var errNoSocket = errors.New("no directory for a unix socket")

// ListenDir listens for clients that find the server by its directory: on a unix socket in
// it, in a private directory where the path would be too long, or, on Windows and where no
// such directory can be made, on TCP of the loopback device, with a token in a file. The files that it
// makes have mode 0600, and the owner of the store.
func ListenDir(dir string) (*Endpoint, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{}
	if err := e.hold(abs); err != nil {
		return nil, err
	}
	info := Info{Protocol: wire.Protocol, PID: os.Getpid()}
	err = errNoSocket
	if runtime.GOOS != "windows" {
		err = e.listenUnix(&info)
	}
	if errors.Is(err, errNoSocket) {
		err = e.listenLoopback(&info)
	}
	if err == nil {
		err = e.publish(info)
	}
	if err != nil {
		_ = e.Close() // remove the part that was made
		return nil, err
	}
	return e, nil
}

// hold keeps the directory for the end: by then another server may have the path.
func (e *Endpoint) hold(dir string) (err error) {
	e.dir = dir
	e.root, err = os.OpenRoot(dir)
	return err
}

func (e *Endpoint) listenUnix(info *Info) error {
	path := filepath.Join(e.dir, socketName)
	info.Address = "unix:" + socketName
	if len(path) > maxSocketPath {
		e.removePrivate()
		private, err := os.MkdirTemp(e.runtimeDir(), privatePrefix) // of mode 0700
		if err != nil {
			return fmt.Errorf("%w: %w", errNoSocket, err) // a root that is read-only, say
		}
		e.remove = append(e.remove, private)
		if err := e.keepOwner(private); err != nil {
			return err
		}
		path = filepath.Join(private, privateSocket)
		info.Address = "unix:" + path
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket of a server that is gone: %w", err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // Close does it in the right order
	if len(e.remove) > 0 {
		e.remove = append([]string{path}, e.remove...)
	} else {
		e.names = append(e.names, socketName)
	}
	e.Listener, e.Address = Listener{Listener: l}, "unix:"+path
	return e.keepOwner(path)
}

// keepOwner lets the user to whom the store belongs connect to a server that root has started.
func (e *Endpoint) keepOwner(path string) error { return vfs.KeepOwner(path, e.like()) }

// like is the path of a file that belongs to the owner of the store.
func (e *Endpoint) like() string {
	lock := filepath.Join(e.dir, engine.LockName)
	if _, err := os.Stat(lock); err != nil {
		return e.dir
	}
	return lock
}

// Names of a private directory, and of the socket in it.
const (
	privatePrefix = "stele-"
	privateSocket = "sock"
)

// removePrivate removes the private directory of a server that was killed, which InfoName
// still names. It removes nothing but a socket, and the directory that is empty then.
func (e *Endpoint) removePrivate() {
	b, err := wire.ReadFile(filepath.Join(e.dir, InfoName))
	if err != nil {
		return
	}
	var info Info
	if json.Unmarshal(b, &info) != nil {
		return
	}
	path, ok := strings.CutPrefix(info.Address, "unix:")
	private := filepath.Dir(path)
	if !ok || !filepath.IsAbs(path) || filepath.Base(path) != privateSocket || !strings.HasPrefix(filepath.Base(private), privatePrefix) {
		return
	}
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == fs.ModeSocket {
		_ = os.Remove(path) // files that cannot be removed stay, and do no harm
	}
	_ = os.Remove(private) // the same
}

// runtimeDir returns the directory in which directories with a short path are made. Who owns the store may
// enter it: root's own, and that of whoever has called sudo, are closed to others.
func (e *Endpoint) runtimeDir() string {
	store, err := os.Stat(e.like())
	for _, dir := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if dir == "" || len(dir) >= maxSocketPath/2 || err != nil {
			continue
		}
		// Where TMPDIR does not exist, no directory can be made, as it says.
		if st, err := os.Stat(dir); err != nil && dir == os.TempDir() || err == nil && st.IsDir() && mayEnter(st, store) {
			return dir
		}
	}
	return "/tmp"
}

func (e *Endpoint) listenLoopback(info *Info) error {
	var random [32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	e.Token, info.TokenFile = hex.EncodeToString(random[:]), tokenName
	if err := e.write(tokenName, []byte(e.Token+"\n")); err != nil {
		return err
	}
	e.names = append(e.names, tokenName)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e.Listener, e.Address = Listener{Listener: l, AskToken: true}, "tcp:"+l.Addr().String()
	info.Address, info.Proof = e.Address, true
	return nil
}

// publish writes the file by which clients find the server.
func (e *Endpoint) publish(info Info) error {
	b, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := e.write(InfoName, append(b, '\n')); err != nil {
		return err
	}
	e.names = append([]string{InfoName}, e.names...)
	return nil
}

// write replaces a file of the directory, so that it is read whole or not at all. It need not
// survive a power failure, which no server does either.
func (e *Endpoint) write(name string, b []byte) error {
	tmp := name + ".tmp"
	if err := e.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := e.create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return e.root.Rename(tmp, name)
}

// create makes a file of the directory. It follows no link: a server of root's must not be led
// to a file elsewhere by the owner of the directory.
func (e *Endpoint) create(name string) (*os.File, error) {
	f, err := e.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := vfs.KeepFileOwner(f, e.like()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ListenAt listens at an address: unix:PATH, tcp:HOST:PORT or tls:HOST:PORT. config is for
// tls. Clients must send the token; "" asks for none, and is refused for tcp and tls. A socket
// of a server that is gone is replaced.
func ListenAt(address, token string, config *tls.Config) (*Endpoint, error) {
	kind, at, _ := strings.Cut(address, ":")
	if kind != "unix" && kind != "tcp" && kind != "tls" || at == "" {
		return nil, fmt.Errorf("address %q: use unix:PATH, tcp:HOST:PORT or tls:HOST:PORT", address)
	}
	if kind != "unix" && token == "" {
		return nil, fmt.Errorf("address %q: without a token anybody could connect", address)
	}
	e := &Endpoint{Token: token}
	if kind == "unix" {
		path, err := filepath.Abs(at)
		if err != nil {
			return nil, err
		}
		if err := removeDead(path); err != nil {
			return nil, err
		}
		l, err := listenPrivate(path)
		if err != nil {
			return nil, err
		}
		l.SetUnlinkOnClose(false) // Close does it in the right order
		e.Listener, e.Address, e.remove = Listener{Listener: l, AskToken: token != ""}, "unix:"+path, []string{path}
		return e, nil
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	e.Address = kind + ":" + l.Addr().String()
	if kind == "tls" {
		l = tls.NewListener(l, config)
	}
	e.Listener = Listener{Listener: l, AskToken: true}
	return e, nil
}

// removeDead removes a socket that nobody listens at.
func removeDead(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	if nc, err := net.Dial("unix", path); err == nil {
		_ = nc.Close() // it was not used
		return fmt.Errorf("%s: another server listens there", path)
	}
	return os.Remove(path)
}

// Announce writes InfoName into the directory of the store, so that clients find a server that listens
// elsewhere. It contains no token: the operator distributes that. A unix socket that root made becomes the
// store's owner's.
func (e *Endpoint) Announce(dir string) error {
	if e.closed {
		return fmt.Errorf("announce a server in %s: %w", dir, net.ErrClosed)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := e.hold(abs); err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(e.Address, "unix:"); ok {
		if err := e.keepOwner(path); err != nil {
			return err
		}
	}
	for _, stale := range []string{socketName, tokenName} {
		if err := e.root.Remove(stale); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return e.publish(Info{Protocol: wire.Protocol, Address: e.Address, PID: os.Getpid()})
}

// Close removes the files by which clients find the server. Connections stay.
func (e *Endpoint) Close() error {
	var errs []error
	gone := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, name := range e.names {
		gone(e.root.Remove(name))
	}
	for _, path := range e.remove {
		gone(os.Remove(path))
	}
	if e.root != nil {
		gone(e.root.Close())
	}
	e.root, e.names, e.remove, e.closed = nil, nil, nil, true
	if e.Listener.Listener != nil {
		if err := e.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
