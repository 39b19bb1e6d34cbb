"""Broker properties for encryption, authentication, authorization and tiered storage."""

from __future__ import annotations

SECURITY_TABLE = """
authorizer.class.name                        string   ""         -              ro   ignored | Authorizer class.
super.users                                  string   ""         -              ro   ignored | Principals with all permissions, separated by semicolons.
allow.everyone.if.no.acl.found               bool     false      -              ro   ignored | Whether access to a resource without ACLs is allowed.
principal.builder.class                      class    null       -              node ignored | Class that derives principals from connections.
sasl.enabled.mechanisms                      list     GSSAPI     -              node ignored | SASL mechanisms for clients.
sasl.mechanism.inter.broker.protocol         string   GSSAPI     -              node ignored | SASL mechanism between brokers.
sasl.mechanism.controller.protocol           string   GSSAPI     -              ro   ignored | SASL mechanism for connections to controllers.
sasl.jaas.config                             password null       -              node ignored | JAAS configuration of a listener and mechanism.
sasl.server.callback.handler.class           class    null       -              ro   ignored | SASL callback handler class.
sasl.server.max.receive.size                 int      524288     >=1            ro   ignored | Maximum size of a SASL message.
connections.max.reauth.ms                    long     0          >=0            ro   ignored | Maximum lifetime of an authenticated session; 0 disables reauthentication.
ssl.keystore.type                            string   JKS        -              node ignored | Format of the key store.
ssl.keystore.location                        string   null       -              node ignored | File of the key store.
ssl.keystore.password                        password null       -              node ignored | Password of the key store.
ssl.keystore.key                             password null       -              node ignored | Private key in PEM format.
ssl.keystore.certificate.chain               password null       -              node ignored | Certificate chain in PEM format.
ssl.key.password                             password null       -              node ignored | Password of the private key.
ssl.truststore.type                          string   JKS        -              node ignored | Format of the trust store.
ssl.truststore.location                      string   null       -              node ignored | File of the trust store.
ssl.truststore.password                      password null       -              node ignored | Password of the trust store.
ssl.truststore.certificates                  password null       -              node ignored | Trusted certificates in PEM format.
ssl.client.auth                              string   none       required,requested,none node ignored | Whether clients must present a certificate.
ssl.protocol                                 string   TLSv1.3    -              node ignored | TLS protocol.
ssl.enabled.protocols                        list     TLSv1.2,TLSv1.3 -              node ignored | Enabled TLS protocol versions.
ssl.cipher.suites                            list     ""         -              node ignored | Enabled cipher suites.
ssl.endpoint.identification.algorithm        string   https      -              node ignored | Algorithm that verifies host names.
ssl.principal.mapping.rules                  string   DEFAULT    -              ro   ignored | Rules that map a distinguished name to a principal.
delegation.token.secret.key                  password null       -              ro   ignored | Secret key for delegation tokens.
delegation.token.max.lifetime.ms             long     604800000  >=1            ro   ignored | Maximum lifetime of a delegation token.
delegation.token.expiry.time.ms              long     86400000   >=1            ro   ignored | Time after which a delegation token must be renewed.
delegation.token.expiry.check.interval.ms    long     3600000    >=1            ro   ignored | Interval between checks for expired delegation tokens.
password.encoder.secret                      password null       -              ro   ignored | Secret for encoding passwords in dynamic configuration.
remote.log.storage.system.enable             bool     false      -              ro   ignored | Whether tiered storage is enabled.
remote.log.storage.manager.class.name        string   null       -              ro   ignored | Remote storage manager class.
remote.log.storage.manager.class.path        string   null       -              ro   ignored | Class path of the remote storage manager.
remote.log.storage.manager.impl.prefix       string   rsm.config. -              ro   ignored | Prefix of the remote storage manager's own properties.
remote.log.metadata.manager.class.name       string   null       -              ro   ignored | Remote log metadata manager class.
remote.log.metadata.manager.class.path       string   null       -              ro   ignored | Class path of the remote log metadata manager.
remote.log.metadata.manager.impl.prefix      string   rlmm.config. -              ro   ignored | Prefix of the remote log metadata manager's own properties.
remote.log.metadata.manager.listener.name    string   null       -              ro   ignored | Listener of the remote log metadata manager.
remote.log.manager.thread.pool.size          int      2          >=1            ro   ignored | Number of threads for tiered storage.
remote.log.manager.task.interval.ms          long     30000      >=1            ro   ignored | Interval between checks for segments to copy to remote storage.
remote.log.index.file.cache.total.size.bytes long     1073741824 >=1            all  ignored | Maximum size of the cache of remote index files.
remote.log.reader.threads                    int      10         >=1            all  ignored | Number of threads that read from remote storage.
remote.log.reader.max.pending.tasks          int      100        >=1            ro   ignored | Maximum number of queued reads from remote storage.
remote.fetch.max.wait.ms                     int      500        >=1            all  ignored | Maximum time a fetch waits for remote data.
"""  # noqa: E501
