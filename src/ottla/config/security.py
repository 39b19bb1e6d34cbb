"""The broker's properties for encryption, authentication, authorisation and remote storage."""

from __future__ import annotations

SECURITY_TABLE = """
authorizer.class.name                string ""          -              ro   | What decides who may do what.
super.users                          string ""          -              ro   | Principals that may do everything, separated by ;.
allow.everyone.if.no.acl.found       bool   false       -              ro   | Whether a resource without rules is open.
principal.builder.class              class  null        -              node | Accepted for compatibility: there are no builder classes.
sasl.enabled.mechanisms              list   GSSAPI      -              node | Mechanisms that clients may use.
sasl.mechanism.inter.broker.protocol string GSSAPI      -              node | Mechanism among brokers.
sasl.mechanism.controller.protocol   string GSSAPI      -              ro   | Mechanism towards controllers.
sasl.jaas.config                     password null      -              node | Credentials of a listener and mechanism.
sasl.server.callback.handler.class   class  null        -              ro   | Accepted for compatibility: there are no handler classes.
sasl.server.max.receive.size         int    524288      >=1            ro   | Largest message before authentication.
connections.max.reauth.ms            long   0           >=0            ro   | Life of an authenticated session; 0 is unlimited.
ssl.keystore.type                    string JKS         -              node | Format of the key store.
ssl.keystore.location                string null        -              node | File of the key store.
ssl.keystore.password                password null      -              node | Password of the key store.
ssl.keystore.key                     password null      -              node | Private key as PEM text.
ssl.keystore.certificate.chain       password null      -              node | Certificates as PEM text.
ssl.key.password                     password null      -              node | Password of the private key.
ssl.truststore.type                  string JKS         -              node | Format of the trust store.
ssl.truststore.location              string null        -              node | File of the trust store.
ssl.truststore.password              password null      -              node | Password of the trust store.
ssl.truststore.certificates          password null      -              node | Trusted certificates as PEM text.
ssl.client.auth                      string none        required,requested,none node | Whether clients show a certificate.
ssl.protocol                         string TLSv1.3     -              node | Protocol of encrypted listeners.
ssl.enabled.protocols                list   TLSv1.2,TLSv1.3 -          node | Protocol versions on encrypted listeners.
ssl.cipher.suites                    list   ""          -              node | Ciphers on encrypted listeners.
ssl.endpoint.identification.algorithm string https      -              node | How a server's name is checked.
ssl.principal.mapping.rules          string DEFAULT     -              ro   | From a certificate's name to a principal.
delegation.token.secret.key          password null      -              ro   | Key that signs delegation tokens.
delegation.token.max.lifetime.ms     long   604800000   >=1            ro   | Longest life of a delegation token.
delegation.token.expiry.time.ms      long   86400000    >=1            ro   | Time in which a token must be renewed.
delegation.token.expiry.check.interval.ms long 3600000  >=1            ro   | Time between looks for expired tokens.
password.encoder.secret              password null      -              ro   | Accepted for compatibility.
remote.log.storage.system.enable     bool   false       -              ro   | Offer remote storage to topics.
remote.log.storage.manager.class.name string null       -              ro   | What stores segments remotely.
remote.log.storage.manager.class.path string null       -              ro   | Accepted for compatibility.
remote.log.storage.manager.impl.prefix string rsm.config. -            ro   | Prefix of its own settings.
remote.log.metadata.manager.class.name string null      -              ro   | What remembers the segments stored remotely.
remote.log.metadata.manager.class.path string null      -              ro   | Accepted for compatibility.
remote.log.metadata.manager.impl.prefix string rlmm.config. -          ro   | Prefix of its own settings.
remote.log.metadata.manager.listener.name string null   -              ro   | Listener that it uses.
remote.log.manager.thread.pool.size  int    2           >=1            ro   | Threads for remote storage.
remote.log.manager.task.interval.ms  long   30000       >=1            ro   | Time between looks for segments to store.
remote.log.index.file.cache.total.size.bytes long 1073741824 >=1       all  | Indexes of remote segments kept here.
remote.log.reader.threads            int    10          >=1            all  | Threads that read remote segments.
remote.log.reader.max.pending.tasks  int    100         >=1            ro   | Reads of remote segments that may wait.
remote.fetch.max.wait.ms             int    500         >=1            all  | Longest wait for remote data in a fetch.
"""  # noqa: E501
