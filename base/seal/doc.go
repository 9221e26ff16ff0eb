// Package seal encrypts the payloads in the files of a store.
//
// A [KeyProvider] has the master keys, by id. Each file has a key of its own, which is
// derived with HKDF-SHA256 from a master key, a random salt of 32 bytes and every byte of
// the file's header: its kind, number and place in the store, and the id of the store.
// Payloads are sealed, which is encrypted and authenticated, with AES-256-GCM after
// compression, in chunks of 64 KiB with a random nonce of 96 bits each. The additional data
// are offset and header of the frame. So a frame can be opened only at its own place in its
// own file of its own store.
//
// The encryption header, which follows the header of an encrypted file, names the master
// key and has a check value that tells a wrong key from damage.
//
// Only [LoadKeyFile] does I/O. docs/format/encryption.md has the byte layout and the
// argument for the nonces.
//
// It is for this repository, and makes no promise to others.
package seal
