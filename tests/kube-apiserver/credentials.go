package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// credentials are created for each run, and deleted with its directory.
type credentials struct {
	// CA is the certificate authority for clients, as PEM.
	ca string
	// Paths of the files that kube-apiserver reads.
	cert, key, serviceAccountKey, tokens string
	// admin has all permissions. powerless is an authenticated user without permissions.
	admin, powerless string
}

func newCredentials(dir string) (*credentials, error) {
	c := &credentials{
		cert:              filepath.Join(dir, "server.crt"),
		key:               filepath.Join(dir, "server.key"),
		serviceAccountKey: filepath.Join(dir, "service-account.key"),
		tokens:            filepath.Join(dir, "tokens.csv"),
		admin:             rand.Text(),
		powerless:         rand.Text(),
	}
	if err := c.certify(); err != nil {
		return nil, err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := writeKey(c.serviceAccountKey, signer); err != nil {
		return nil, err
	}
	tokens := fmt.Sprintf("%s,admin,admin,\"system:masters\"\n%s,powerless,powerless\n", c.admin, c.powerless)
	return c, os.WriteFile(c.tokens, []byte(tokens), 0o600)
}

// certify creates a certificate authority, and the certificate of the server.
func (c *credentials) certify() error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "windlass-test-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(365 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return err
	}
	c.ca = pemOf("CERTIFICATE", authorityDER)
	if err := os.WriteFile(c.cert, []byte(pemOf("CERTIFICATE", leafDER)), 0o600); err != nil {
		return err
	}
	return writeKey(c.key, key)
}

// writeKubeconfig writes a kubeconfig for kubectl with the user admin.
func (c *credentials) writeKubeconfig(path, server string) error {
	return os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: windlass
clusters:
- name: windlass
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    token: %s
contexts:
- name: windlass
  context:
    cluster: windlass
    user: admin
`, server, base64.StdEncoding.EncodeToString([]byte(c.ca)), c.admin), 0o600)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(pemOf("EC PRIVATE KEY", der)), 0o600)
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
