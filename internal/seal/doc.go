// Package seal encrypts what the files of a store carry.
//
// A master key comes from a [KeyProvider] under an id. Each file has a key of
// its own, derived with HKDF-SHA256 from the master key, a random salt of 32
// bytes and every byte of the file's header: its kind, number and place in the
// store, and the id of the store. Frames are sealed with AES-256-GCM after
// compression, in chunks of 64 KiB, each under a random nonce of 96 bits; what
// the owner passes as additional data (offset and header of the frame) is
// authenticated with them. So a frame opens only in its own place of its own
// file of its own store.
//
// The encryption header, which follows the header of an encrypted file, names
// the key and holds a check value by which a wrong key is told from damage.
//
// This package does no I/O but for [LoadKeyFile], and knows nothing of frames.
// docs/format/encryption.md has the bytes and the argument for the nonces.
package seal
