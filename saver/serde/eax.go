package serde

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
)

// eax is AES in EAX mode (Bellare, Rogaway, Wagner: "The EAX mode of
// operation"), without associated data and with nonce and tag of a block each:
// what pycryptodome does by default, and hence LangGraph. EAX is CTR for
// secrecy, and three OMACs, told apart by their first block, for integrity.
type eax struct {
	block  cipher.Block
	k1, k2 [aes.BlockSize]byte // OMAC's masks for a last block that is whole, or padded
	header [aes.BlockSize]byte // OMAC of the empty associated data
}

func newEAX(block cipher.Block) *eax {
	x := &eax{block: block}
	block.Encrypt(x.k1[:], x.k1[:])
	double(&x.k1)
	x.k2 = x.k1
	double(&x.k2)
	x.header = x.omac(1, nil)
	return x
}

// double multiplies by x in GF(2^128), in constant time.
func double(b *[aes.BlockSize]byte) {
	carry := b[0] >> 7
	for i := range len(b) - 1 {
		b[i] = b[i]<<1 | b[i+1]>>7
	}
	b[len(b)-1] = b[len(b)-1]<<1 ^ 0x87*carry
}

// omac is OMAC (CMAC) over a block that holds t, followed by msg.
func (x *eax) omac(t byte, msg []byte) (mac [aes.BlockSize]byte) {
	mac[aes.BlockSize-1] = t
	if len(msg) == 0 { // the block of t is the last one
		subtle.XORBytes(mac[:], mac[:], x.k1[:])
		x.block.Encrypt(mac[:], mac[:])
		return mac
	}
	x.block.Encrypt(mac[:], mac[:])
	for len(msg) > aes.BlockSize {
		subtle.XORBytes(mac[:], mac[:], msg[:aes.BlockSize])
		x.block.Encrypt(mac[:], mac[:])
		msg = msg[aes.BlockSize:]
	}
	subtle.XORBytes(mac[:], mac[:], msg)
	mask := &x.k1
	if len(msg) < aes.BlockSize {
		mac[len(msg)] ^= 0x80
		mask = &x.k2
	}
	subtle.XORBytes(mac[:], mac[:], mask[:])
	x.block.Encrypt(mac[:], mac[:])
	return mac
}

// tag authenticates nonce (by its OMAC) and ciphertext.
func (x *eax) tag(nonceMAC [aes.BlockSize]byte, ciphertext []byte) [aes.BlockSize]byte {
	t := x.omac(2, ciphertext)
	subtle.XORBytes(t[:], t[:], nonceMAC[:])
	subtle.XORBytes(t[:], t[:], x.header[:])
	return t
}

// seal returns nonce ‖ tag ‖ ciphertext.
func (x *eax) seal(nonce, plaintext []byte) []byte {
	out := make([]byte, 2*aes.BlockSize+len(plaintext))
	copy(out, nonce)
	mac := x.omac(0, nonce)
	ciphertext := out[2*aes.BlockSize:]
	cipher.NewCTR(x.block, mac[:]).XORKeyStream(ciphertext, plaintext)
	tag := x.tag(mac, ciphertext)
	copy(out[aes.BlockSize:], tag[:])
	return out
}

// open is the inverse of seal. ok is false if seal did not make the bytes with this key. It
// compares the tag in constant time, before it decrypts anything.
func (x *eax) open(data []byte) (plaintext []byte, ok bool) {
	if len(data) < 2*aes.BlockSize {
		return nil, false
	}
	nonce, have, ciphertext := data[:aes.BlockSize], data[aes.BlockSize:2*aes.BlockSize], data[2*aes.BlockSize:]
	mac := x.omac(0, nonce)
	want := x.tag(mac, ciphertext)
	if subtle.ConstantTimeCompare(want[:], have) != 1 {
		return nil, false
	}
	plaintext = make([]byte, len(ciphertext))
	cipher.NewCTR(x.block, mac[:]).XORKeyStream(plaintext, ciphertext)
	return plaintext, true
}
