package attempts

import "net"

// recorded is a connection below TLS that follows the records read from it.
type recorded struct {
	net.Conn
	records records
}

func (r *recorded) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	r.records.read(p[:n])
	return n, err
}

// records follows the framing of TLS records (RFC 8446, section 5.1): type,
// version, two bytes of length, then that many bytes.
type records struct {
	head [5]byte
	have int // bytes of the header so far
	left int // bytes of the record's content still to come
}

func (r *records) read(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left, p = r.left-n, p[n:]
			continue
		}
		n := copy(r.head[r.have:], p)
		r.have, p = r.have+n, p[n:]
		if r.have == len(r.head) {
			r.have, r.left = 0, int(r.head[3])<<8|int(r.head[4])
		}
	}
}

// whole says that what was read ends with a complete record.
func (r *records) whole() bool { return r.have == 0 && r.left == 0 }
