package peer

import (
	"database/sql"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"
	"github.com/vmihailenco/msgpack/v5"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

func synchronous(m Mode) string {
	if m == Durable {
		return "FULL"
	}
	return "NORMAL"
}

func openMattn(o Options) (Store, error) { return openSQLite("sqlite3", mattnDSN(o), false) }

func openWhole(o Options) (Store, error) { return openSQLite("sqlite3", mattnDSN(o), true) }

func openModernc(o Options) (Store, error) {
	return openSQLite("sqlite", "file:"+filepath.Join(o.Dir, "lite.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)&_txlock=immediate"+
		"&_pragma=cache_size(-32768)&_pragma=synchronous("+synchronous(o.Mode)+")", false)
}

func mattnDSN(o Options) string {
	return "file:" + filepath.Join(o.Dir, "lite.db") + "?_journal_mode=WAL&_busy_timeout=60000&_txlock=immediate&_cache_size=-32768&_synchronous=" + synchronous(o.Mode)
}

func openSQLite(driver, dsn string, whole bool) (Store, error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	s := &sqlStore{whole: whole, vacuum: "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)"}
	if s, err = openSQL(db, s); err != nil {
		return nil, err
	}
	return s, nil
}

// wholeRecord is a checkpoint with the values inside.
type wholeRecord struct {
	Record []byte            `msgpack:"r"`
	Values map[string][]byte `msgpack:"v"`
}

func inRecord(r rows) (rows, error) {
	w := wholeRecord{Record: r.record, Values: map[string][]byte{}}
	for _, b := range r.blobs {
		w.Values[b.channel] = packTyped(b.typed)
	}
	b, err := msgpack.Marshal(&w)
	return rows{record: b, metadata: r.metadata}, err
}
