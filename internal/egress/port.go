package egress

import (
	"fmt"
	"slices"
	"strconv"
)

// otherServices are ports from 1024 of services that do not speak HTTP, or speak
// it and trust whoever gets through to them: what one of them makes of a request
// is nobody's intention. Ports below 1024 but for 80 and 443 are others' anyway.
var otherServices = map[int]string{
	1433: "SQL Server", 1434: "SQL Server", 1521: "Oracle", 1720: "H.323", 1723: "PPTP", 2049: "NFS", 2181: "ZooKeeper",
	2375: "Docker", 2376: "Docker", 2377: "Docker", 2379: "etcd", 2380: "etcd", 3306: "MySQL", 3389: "RDP", 4369: "Erlang",
	5060: "SIP", 5061: "SIP", 5432: "PostgreSQL", 5433: "PostgreSQL", 5671: "AMQP", 5672: "AMQP", 5900: "VNC", 5984: "CouchDB",
	6000: "X11", 6379: "Redis", 6380: "Redis", 6432: "PgBouncer", 6665: "IRC", 6666: "IRC", 6667: "IRC", 6668: "IRC", 6669: "IRC", 6697: "IRC",
	8086: "InfluxDB", 8500: "Consul", 9042: "Cassandra", 9092: "Kafka", 9200: "Elasticsearch", 9300: "Elasticsearch",
	10250: "kubelet", 10255: "kubelet", 11211: "memcached", 26379: "Redis Sentinel", 27017: "MongoDB", 27018: "MongoDB", 27019: "MongoDB",
}

// CheckPort reads the port of a URL, as it is written there. Allowed are 80, 443,
// and from 1024 those that belong to no other service; also are allowed besides.
// setting is what names them. The error is a *Refusal.
func CheckPort(text string, also []int, setting string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != text {
		return 0, &Refusal{fmt.Sprintf("%q is not a port", short(text)), ""}
	}
	service, taken := otherServices[n]
	switch {
	case slices.Contains(also, n) || n == 80 || n == 443:
		return n, nil
	case n < 1024:
		service = "another service than HTTP"
	case !taken:
		return n, nil
	}
	return n, &Refusal{
		fmt.Sprintf("port %d belongs to %s", n, service),
		fmt.Sprintf("Allowed are 80, 443 and from 1024 those of no other service; if it is meant, name it under %s.", setting),
	}
}
